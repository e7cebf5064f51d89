#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ftrt {

// What kind of thing went wrong. The code is for programs, the message for people.
enum class error_code : std::uint16_t {
  invalid_argument = 1,  // the caller or the scenario asked for something impossible
  not_found,             // no such file, run, checkpoint, tensor
  corrupt,               // bytes are not what their digest, length or format says
  unsupported,           // well-formed, but newer or other than this build knows
  stale_generation,      // a message or file of a generation that has been revoked
  timeout,               // a deadline passed
  aborted,               // a communicator was aborted on purpose
  peer_lost,             // a rank died while others needed it; the context names it
  refused,               // the other side said no
  busy,                  // somebody else holds it; the context names the holder
  io,                    // the operating system failed a call
  no_space,              // disk or memory is full
  program_error,         // the user's model or data threw; not a fault of the machine
  budget_exhausted,      // too many restarts; the context says why the last ones were needed
  internal,              // our own bug
};

[[nodiscard]] std::string_view to_string(error_code code);

// An error of the world: what happened (`message`, one sentence that names the thing, what was
// expected, what was found and what to do) and where (`context`, innermost first).
struct error {
  error_code code = error_code::internal;
  std::string message;
  std::string context;

  // "corrupt: manifest.bin: ... (while loading checkpoint 12)"
  [[nodiscard]] std::string describe() const;
  // The same error with one more line of context.
  [[nodiscard]] error with_context(std::string_view where) &&;
};

// Either a value or an error; `result<void>` for an action.
//
//   ftrt::result<int> n = read();
//   if (!n) return tl::unexpected(n.error());
template <class T>
using result = tl::expected<T, error>;

[[nodiscard]] inline tl::unexpected<error> fail(error_code code, std::string message,
                                                std::string context = {}) {
  return tl::unexpected(error{code, std::move(message), std::move(context)});
}

// `fail(io, ...)` (or no_space, not_found, ... as errno says) with strerror of `errno_value`.
[[nodiscard]] tl::unexpected<error> fail_errno(std::string_view what, int errno_value);

// An assertion that stays on in release: our own bug, so the process stops with the place.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace ftrt

#define FTRT_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::ftrt::assertion_failed(#expression, __FILE__, __LINE__))
