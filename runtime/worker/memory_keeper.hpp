#pragma once

#include <chrono>
#include <cstdint>
#include <ftrt/error.hpp>

namespace ftrt::worker {

// A keeper's command name (/proc/PID/comm); its command line is that of the process it belongs to,
// since it shares that too.
inline constexpr char keeper_name[] = "ftrt-keeper";

// Starts a second process that shares all memory of this one and does nothing, so that this one
// dies within microseconds, however much memory it has: the kernel takes memory back when the last
// process that shares it ends, and the keeper lives for `linger` longer, by when a successor most
// likely trains (docs/adr/0010). Meanwhile it is the OOM killer's first choice.
//
// The keeper is a child of this process's parent, which reaps it. It holds no descriptor but
// `lifeline`, with whose end it leaves at once, and a pidfd of this process, and hears no signal
// but SIGKILL and SIGSTOP. Call once, before this process has a second thread. The result is the
// keeper's pid; after an error a death takes its time.
[[nodiscard]] result<int> start_memory_keeper(int lifeline, std::chrono::milliseconds linger);

// For about as long as a recovery by a state of that size can take.
[[nodiscard]] std::chrono::milliseconds keeper_linger(std::uint64_t state_bytes);

}  // namespace ftrt::worker
