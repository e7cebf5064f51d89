#pragma once

namespace ftrt {

// The main() of a worker program. The program `ftrt-worker` is nothing else; a service with models
// of its own links the worker library into a program that registers them first:
//
//   #include <ftrt/model.hpp>
//   #include <ftrt/worker.hpp>
//
//   FTRT_REGISTER_MODEL(my_model, [](const ftrt::scenario& s) { return make_my_model(s); });
//   int main(int argc, char** argv) { return ftrt::worker_main(argc, argv); }
//
// and names it in run_options::worker_program. Call it first thing in main(), with one thread
// running: it closes every descriptor above standard error that is not its own, and may exec the
// program once more to set OMP_NUM_THREADS=1 and MKL_NUM_THREADS=1, so arguments must be passed on
// as they came. Returns the exit code when control has gone; in forked workers it does not return.
[[nodiscard]] int worker_main(int argc, char** argv);

}  // namespace ftrt
