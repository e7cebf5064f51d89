#include <schemas/protocol/large_packet.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <schemas/protocol/messages.hpp>
#include <string>

namespace ftrt::protocol {
namespace {

constexpr std::uint32_t marker = 0xFFFFFFFF;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

struct reference_fields {
  std::uint32_t mark = marker;
  std::uint32_t zero = 0;
  std::uint64_t length = 0;
};
static_assert(sizeof(reference_fields) == sizeof(large_packet::reference));

result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("write a large message to its memory", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

result<void> check_memory(int fd, std::uint64_t length) {
  const auto bad = [](const std::string& what) {
    return fail(error_code::corrupt, "the memory of a large message " + what);
  };
  if (length == 0 || length > max_message_bytes) {
    return bad("should have " + std::to_string(length) + " bytes, expected 1 .. " +
               std::to_string(max_message_bytes));
  }
  // Only memory can be sealed: reading a pipe, a device or a file might block.
  const int found = ::fcntl(fd, F_GET_SEALS);
  if (found < 0 || (found & F_SEAL_SHRINK) == 0) return bad("is not sealed");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("look at a large message's memory", errno);
  if (static_cast<std::uint64_t>(status.st_size) != length) {
    return bad("has " + std::to_string(status.st_size) + " bytes, its packet says " +
               std::to_string(length));
  }
  return {};
}

}  // namespace

result<large_packet> make_large_packet(std::span<const std::byte> content) {
  large_packet made;
  made.memory = unique_fd{::memfd_create("ftrt-message", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!made.memory.valid()) return fail_errno("make memory for a large message", errno);
  if (auto ok = write_all(made.memory.get(), content); !ok) return tl::unexpected(ok.error());
  if (::fcntl(made.memory.get(), F_ADD_SEALS, seals) != 0) {
    return fail_errno("seal a large message", errno);
  }
  const reference_fields fields{.length = content.size()};
  std::memcpy(made.reference.data(), &fields, sizeof fields);
  return made;
}

bool is_large_packet(std::span<const std::byte> bytes) {
  std::uint32_t first = 0;
  if (bytes.size() != sizeof(reference_fields)) return false;
  std::memcpy(&first, bytes.data(), sizeof first);
  return first == marker;
}

result<std::vector<std::byte>> read_large_packet(std::span<const std::byte> reference,
                                                 const unique_fd& memory) {
  FTRT_ASSERT(is_large_packet(reference));
  reference_fields fields;
  std::memcpy(&fields, reference.data(), sizeof fields);
  if (auto ok = check_memory(memory.get(), fields.length); !ok) return tl::unexpected(ok.error());
  std::vector<std::byte> content(fields.length);
  std::size_t at = 0;
  while (at < content.size()) {
    const auto n =
        ::pread(memory.get(), content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read a large message from its memory", errno);
    if (n == 0) return fail(error_code::corrupt, "a large message ends early");
    at += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace ftrt::protocol
