#pragma once

#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <string>
#include <string_view>

// What turns a process into a zygote, and a forked child into a worker. Main thread, before there
// is another.
namespace ftrt::worker {

// Where exec put the arguments: `ps` shows what is written there. Remembered once, by the program's
// main thread.
void remember_arguments(int argc, char** argv);
// Shortened to the room there is; nothing where there is none.
void set_process_title(std::string_view title);

// Closes every descriptor above standard error except `keep`: what a host process leaked into us
// (a service's listening socket, say) must not live on in workers.
void close_inherited_descriptors(int keep);

// SIGINT, SIGTERM and SIGHUP reach a whole terminal group, but only control decides when to stop;
// SIGPIPE is an error code to us.
void ignore_terminal_signals();

// A child's own: signals as after exec except those ignored above, standard output and error into
// `standard_error`, no core file unless asked for, first to go when memory runs out.
[[nodiscard]] result<void> become_worker(int standard_error, bool core_dumps);

// What `ps` and the log call this process.
void be_named_after(rank_id rank, incarnation_id incarnation);
void be_named_spare();

// LibTorch reads these when it is loaded, so they must stand in the environment before exec
// (docs/adr/0002). Replaces this process by itself with them set, where they are not.
[[nodiscard]] result<void> ensure_one_thread_environment(char** argv);

}  // namespace ftrt::worker
