#pragma once

#include <string>
#include <string_view>

namespace ftrt::worker {

// Writes one line to standard error in a single write(), so that lines of several processes and
// threads on one pipe stay whole. Begins with "ftrt-worker: " and what set_log_name() was given.
// Any thread; never throws, never fails (a reader that is gone is no reason to stop training).
void say(std::string_view text) noexcept;

// "zygote", "spare", "rank 1.2" (rank and incarnation). While no other thread exists.
void set_log_name(std::string_view name);

// What the exception that is being handled says, for people, at most a few kilobytes. Call it in a
// catch block.
[[nodiscard]] std::string describe_current_exception();

}  // namespace ftrt::worker
