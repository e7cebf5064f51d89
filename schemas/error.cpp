#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ftrt/error.hpp>

namespace ftrt {

std::string_view to_string(error_code code) {
  switch (code) {
    case error_code::invalid_argument:
      return "invalid argument";
    case error_code::not_found:
      return "not found";
    case error_code::corrupt:
      return "corrupt";
    case error_code::unsupported:
      return "unsupported";
    case error_code::stale_generation:
      return "stale generation";
    case error_code::timeout:
      return "timeout";
    case error_code::aborted:
      return "aborted";
    case error_code::peer_lost:
      return "peer lost";
    case error_code::refused:
      return "refused";
    case error_code::busy:
      return "busy";
    case error_code::io:
      return "input/output error";
    case error_code::no_space:
      return "no space";
    case error_code::program_error:
      return "program error";
    case error_code::budget_exhausted:
      return "restart budget exhausted";
    case error_code::internal:
      return "internal error";
  }
  return "unknown error";
}

std::string error::describe() const {
  std::string text{to_string(code)};
  if (!message.empty()) text += ": " + message;
  if (!context.empty()) text += " (" + context + ")";
  return text;
}

error error::with_context(std::string_view where) && {
  if (!context.empty()) context += "; ";
  context += where;
  return std::move(*this);
}

tl::unexpected<error> fail_errno(std::string_view what, int errno_value) {
  const auto code = [errno_value] {
    switch (errno_value) {
      case ENOSPC:
      case EDQUOT:
      case ENOMEM:
        return error_code::no_space;
      case ENOENT:
        return error_code::not_found;
      case EACCES:
      case EPERM:
      case EROFS:
        return error_code::refused;
      case EBUSY:
      case EAGAIN:
        return error_code::busy;
      case EINVAL:
        return error_code::invalid_argument;
      case ETIMEDOUT:
        return error_code::timeout;
      default:
        return error_code::io;
    }
  }();
  return fail(code, std::string{what} + ": " + std::strerror(errno_value));
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "ftrt: internal error: assertion failed: %s (%s:%d)\n", expression, file,
               line);
  std::abort();
}

}  // namespace ftrt
