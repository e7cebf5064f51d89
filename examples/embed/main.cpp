// A service that trains while it does something else.
//
//   build/bin/ftrt_example_embed scenarios/mnist.toml 10      stop after ten seconds

#include <chrono>
#include <cstdlib>
#include <ftrt/run.hpp>
#include <ftrt/scenario.hpp>
#include <iostream>
#include <string>

namespace {

int refuse(const std::vector<ftrt::diagnostic>& faults) {
  for (const auto& fault : faults) std::cerr << fault.describe() << '\n';
  return 2;
}

int train(const std::string& file, std::chrono::seconds patience) {
  const auto loaded = ftrt::load_scenario(file);
  if (!loaded) return refuse(loaded.error());

  ftrt::run_options options;
  // Called on a thread of the runtime: a real service would post to its own queue here.
  options.on_event = [](const ftrt::event& happened) {
    std::cout << to_string(happened.what) << ' ' << happened.subject << ' ' << happened.text
              << '\n';
  };
  const auto run = ftrt::run::start(loaded->values, options);
  if (!run) {
    if (run.error().failed) std::cerr << run.error().failed->describe() << '\n';
    return run.error().refused.empty() ? 1 : refuse(run.error().refused);
  }

  // The service's own work would go here; the run needs nothing of this thread.
  auto summary = (*run)->wait_for(patience);
  if (!summary) {
    (*run)->request_stop("out of patience");
    summary = (*run)->wait();
  }
  std::cout << summary->status << " after " << summary->iterations << " iterations, weights "
            << summary->weights_digest << '\n';
  return summary->status == "failed" ? 1 : 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    std::cerr << "usage: ftrt_example_embed SCENARIO SECONDS\n";
    return 2;
  }
  return train(arguments[1], std::chrono::seconds(std::atoi(arguments[2])));
}
