#include <spdlog/sinks/stdout_sinks.h>

#include <actors/host/log.hpp>
#include <cstdlib>
#include <memory>

namespace ftrt::host {

spdlog::logger& log() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("ftrt", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    // FTRT_LOG=debug tells each step of the recovery machine.
    if (const char* level = std::getenv("FTRT_LOG"))
      made->set_level(spdlog::level::from_str(level));
    return made;
  }();
  return *logger;
}

void warn_of_failure(std::string_view subject, const result<void>& outcome) {
  if (!outcome) log().warn("{}: {}", subject, outcome.error().describe());
}

}  // namespace ftrt::host
