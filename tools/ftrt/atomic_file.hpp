#pragma once

#include <filesystem>
#include <ftrt/error.hpp>
#include <string_view>

namespace ftrt::cli {

// Replaces `file` by `text` in one step: a reader sees the old or the new content, never a part. It
// is on disk when the call returns. Something that is no regular file (a pipe, /dev/stdout) is
// written to directly. Blocks for the disk.
[[nodiscard]] result<void> write_atomically(const std::filesystem::path& file,
                                            std::string_view text);

// Whether write_atomically() would get as far as creating a file there. Leaves nothing behind.
[[nodiscard]] result<void> probe_writable(const std::filesystem::path& file);

}  // namespace ftrt::cli
