#pragma once

#include <chrono>
#include <ftrt/error.hpp>

namespace ftrt::worker {

// Lets this process die within microseconds, however much memory it has: a second process, which
// shares all its memory and does nothing, holds the memory until `linger` after the death, and the
// kernel takes it back then rather than in the midst of the recovery (docs/adr/0009).
//
// It is a sibling: whoever reaps this process reaps it too. It holds no descriptor but `lifeline`,
// whose end it leaves with at once, and hears no signal but SIGKILL and SIGSTOP. Before this process
// has a second thread.
[[nodiscard]] result<void> start_memory_keeper(int lifeline, std::chrono::milliseconds linger);

}  // namespace ftrt::worker
