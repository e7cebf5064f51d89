#include <unistd.h>

#include <exception>
#include <new>
#include <runtime/worker/log.hpp>

namespace ftrt::worker {
namespace {

constexpr std::size_t longest_description = 4096;

std::string& prefix() {
  static std::string text = "ftrt-worker: ";
  return text;
}

std::string shortened(std::string text) {
  if (text.size() > longest_description) {
    text.resize(longest_description);
    text += " ...";
  }
  return text;
}

}  // namespace

void say(std::string_view text) noexcept {
  try {
    std::string line = prefix();
    line += text;
    line += '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view line = "ftrt-worker: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  }
}

void set_log_name(std::string_view name) {
  prefix() = "ftrt-worker: " + std::string{name} + ": ";
}

std::string describe_current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& e) {
    return shortened(e.what());
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace ftrt::worker
