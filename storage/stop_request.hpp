#pragma once

#include <filesystem>
#include <ftrt/error.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ftrt::storage {

// A request to stop, left in the run's folder for whoever holds it (docs/adr/0006): the file
// `stop-request`, a token and a reason. It is meant for the hold with that token alone, so a late
// one never stops the process that takes the run up next. Whoever may write into the folder may
// ask; no process is signalled.
inline constexpr std::string_view stop_request_name = "stop-request";

// Whole or not at all; a request that waits already is replaced. `reason` is cut to one line.
[[nodiscard]] result<void> write_stop_request(const std::filesystem::path& directory,
                                              const std::string& token, const std::string& reason);

// Takes the request that waits out of the folder, whatever it is. Empty: there was none, or it is
// not for the holder with this token. Does not wait, whatever lies there under that name.
[[nodiscard]] std::optional<std::string> take_stop_request(const std::filesystem::path& directory,
                                                           const std::string& token);

}  // namespace ftrt::storage
