#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <runtime/data/idx.hpp>
#include <utility>

namespace ftrt::data {
namespace {

using bytes_view = std::span<const std::uint8_t>;

// No data set of this form comes near it; a header that claims more is damaged.
constexpr std::uint64_t max_content_bytes = 1ULL << 34;

diagnostic fault(const std::filesystem::path& file, std::string expected, std::string found,
                 std::string hint = {}) {
  return {file.string(), 0, "data.path", std::move(expected), std::move(found), std::move(hint)};
}

std::string hex(std::uint32_t word) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", word);
  return text.data();
}

std::uint32_t big_endian(bytes_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

struct content {
  bytes_view bytes;
  std::shared_ptr<const void> owner;
};
using read_result = tl::expected<content, diagnostic>;

read_result map_plain(const std::filesystem::path& file, int fd, std::size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return tl::unexpected(fault(file, "a file that can be mapped", std::strerror(errno)));
  }
  std::shared_ptr<const void> owner(base, [base, size](const void*) { ::munmap(base, size); });
  return content{{static_cast<const std::uint8_t*>(base), size}, std::move(owner)};
}

// Inflates piece by piece, so that memory follows what is there and not what a header claims.
read_result inflate_gzip(const std::filesystem::path& file) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(::gzopen(file.c_str(), "rb"), ::gzclose);
  if (!in) return tl::unexpected(fault(file, "a readable gzip file", std::strerror(errno)));
  auto inflated = std::make_shared<std::vector<std::uint8_t>>();
  std::vector<std::uint8_t> piece(1U << 18);
  for (;;) {
    const int got = ::gzread(in.get(), piece.data(), static_cast<unsigned>(piece.size()));
    int code = Z_OK;
    const char* text = ::gzerror(in.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      return tl::unexpected(fault(file, "a whole gzip stream",
                                  "damaged or cut short after " + std::to_string(inflated->size()) +
                                      " inflated bytes: " + text));
    }
    if (got == 0) break;
    inflated->insert(inflated->end(), piece.begin(), piece.begin() + got);
    if (inflated->size() > max_content_bytes) {
      return tl::unexpected(fault(file, "at most 16 GiB of samples", "more than that, inflated"));
    }
  }
  return content{{inflated->data(), inflated->size()}, inflated};
}

bool is_gzip(int fd) {
  std::array<std::uint8_t, 2> magic{};
  return ::pread(fd, magic.data(), magic.size(), 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

read_result read_content(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return tl::unexpected(fault(file, "a readable file", std::strerror(errno),
                                errno == ENOENT ? "./tools/run fetches MNIST" : ""));
  }
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd,
                                                                [](const int* f) { ::close(*f); });
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return tl::unexpected(fault(file, "a readable file", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return tl::unexpected(
        fault(file, "a regular file", S_ISDIR(info.st_mode) ? "a directory" : "something else"));
  }
  if (info.st_size == 0) return tl::unexpected(fault(file, "an IDX file", "an empty file"));
  if (is_gzip(fd)) return inflate_gzip(file);
  return map_plain(file, fd, static_cast<std::size_t>(info.st_size));
}

std::string describe_magic(std::uint32_t found, std::uint32_t expected) {
  if (found == __builtin_bswap32(expected)) return "magic " + hex(found) + " (byte-swapped)";
  if (found == (expected ^ 0x803U ^ 0x801U)) {
    return "magic " + hex(found) + (found == 0x801U ? " (labels)" : " (images)");
  }
  return "magic " + hex(found);
}

}  // namespace

tl::expected<idx_file, diagnostic> idx_file::open(const std::filesystem::path& file,
                                                  std::size_t dimensions) {
  auto read = read_content(file);
  if (!read) return tl::unexpected(std::move(read.error()));
  const auto bytes = read->bytes;
  const std::size_t header = 4 + 4 * dimensions;
  const auto expected_magic = static_cast<std::uint32_t>(0x800U + dimensions);

  if (bytes.size() >= 4 && big_endian(bytes, 0) != expected_magic) {
    return tl::unexpected(fault(file, "magic " + hex(expected_magic),
                                describe_magic(big_endian(bytes, 0), expected_magic)));
  }
  if (bytes.size() < header) {
    return tl::unexpected(fault(file, "an IDX header of " + std::to_string(header) + " bytes",
                                std::to_string(bytes.size()) + " bytes"));
  }
  idx_file idx;
  std::uint64_t size = 1;
  std::string text;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto extent = big_endian(bytes, 4 + 4 * d);
    idx.shape_.push_back(extent);
    text += (d == 0 ? "" : " x ") + std::to_string(extent);
    size = size > max_content_bytes ? size : size * extent;
  }
  if (size > max_content_bytes || size == 0) {
    return tl::unexpected(fault(file, "dimensions of a data set of this size", text));
  }
  if (bytes.size() - header != size) {
    const bool more = bytes.size() - header > size;
    return tl::unexpected(fault(file,
                                std::to_string(size) + " bytes after the header (" + text + ")",
                                std::to_string(bytes.size() - header) +
                                    (more ? " (trailing bytes)" : " (truncated file)")));
  }
  idx.path_ = file;
  idx.bytes_ = bytes.subspan(header);
  idx.owner_ = std::move(read->owner);
  return idx;
}

}  // namespace ftrt::data
