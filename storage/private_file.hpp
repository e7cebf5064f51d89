#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <string>
#include <string_view>

namespace ftrt::storage {

// Small files for people and for the commands that look at a run. A run never reads them back, so
// they are replaced in one step but do not wait for the disk: a power cut may lose the last ones.
// Blocks for the page cache: storage thread only.

// Owner-only (0600), whatever stood there.
[[nodiscard]] result<void> replace_private_file(const std::filesystem::path& file,
                                                std::string_view text);

// The whole text of a regular file; what is a link, a pipe or larger than `limit_bytes` is refused
// (corrupt) without being read.
[[nodiscard]] result<std::string> read_private_file(const std::filesystem::path& file,
                                                    std::uint64_t limit_bytes);

}  // namespace ftrt::storage
