#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <storage/shared_memory.hpp>
#include <thread>

namespace ftrt::storage {
namespace {

constexpr int our_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Offsets of files and pointers are signed; a size beyond that is a wrong computation upstream.
bool possible(std::size_t size_bytes) {
  return size_bytes > 0 &&
         size_bytes <= static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
}

result<std::byte*> map_shared(int fd, std::size_t size_bytes, int protection) {
  void* address = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return fail_errno("mapping " + std::to_string(size_bytes) + " bytes of shared memory", errno);
  }
  return static_cast<std::byte*>(address);
}

result<void> check_foreign(int fd, std::size_t size_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(error_code::corrupt,
                "shared memory from another process is not sealed against shrinking; its owner "
                "could take it away under us");
  }
  struct stat found {};
  if (::fstat(fd, &found) != 0) return fail_errno("fstat of shared memory", errno);
  if (found.st_size < 0 || static_cast<std::uint64_t>(found.st_size) < size_bytes) {
    return fail(error_code::corrupt, "shared memory has " + std::to_string(found.st_size) +
                                         " bytes, expected at least " + std::to_string(size_bytes));
  }
  return {};
}

// Bytes [offset, offset + target.size()) of the file. 0 or an errno; EIO: it ends before that.
int read_at(int fd, std::size_t offset, std::span<std::byte> target) {
  while (!target.empty()) {
    const auto got = ::pread(fd, target.data(), target.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    offset += static_cast<std::size_t>(got);
    target = target.subspan(static_cast<std::size_t>(got));
  }
  return 0;
}

// Makes the pages present that hold these bytes. 0 or an errno.
int touch_pages(std::span<std::byte> bytes) {
  if (::madvise(bytes.data(), bytes.size(), MADV_POPULATE_READ) == 0) return 0;
  if (errno != EINVAL) return errno;
  // Linux before 5.14 has no such advice.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes.size(); at += page) {
    static_cast<void>(static_cast<const volatile std::byte*>(bytes.data())[at]);
  }
  return 0;
}

constexpr std::size_t most_copiers = 4;                        // the memory is busy with fewer
constexpr std::size_t worth_a_thread = std::size_t{16} << 20;  // bytes; a thread's start is 50 us

std::size_t copiers_for(std::size_t size_bytes) {
  cpu_set_t cores_of_ours;
  const bool known = ::sched_getaffinity(0, sizeof cores_of_ours, &cores_of_ours) == 0;
  const auto cores = static_cast<std::size_t>(known ? CPU_COUNT(&cores_of_ours) : 1);
  return std::clamp<std::size_t>(size_bytes / worth_a_thread, 1, std::min(most_copiers, cores));
}

}  // namespace

result<shared_memory> shared_memory::create(const std::string& name, std::size_t size_bytes) {
  if (!possible(size_bytes)) {
    return fail(error_code::invalid_argument, "shared memory '" + name + "' cannot have " +
                                                  std::to_string(size_bytes) + " bytes");
  }
  shared_memory memory;
  memory.fd_ = unique_fd{::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memory.fd_.valid()) return fail_errno("memfd_create '" + name + "'", errno);
  if (::ftruncate(memory.fd_.get(), static_cast<off_t>(size_bytes)) != 0) {
    return fail_errno("sizing shared memory '" + name + "'", errno);
  }
  if (::fcntl(memory.fd_.get(), F_ADD_SEALS, our_seals) != 0) {
    return fail_errno("sealing shared memory '" + name + "'", errno);
  }
  auto address = map_shared(memory.fd_.get(), size_bytes, PROT_READ | PROT_WRITE);
  if (!address) return tl::unexpected(std::move(address.error()).with_context(name));
  memory.data_ = *address;
  memory.size_ = size_bytes;
  return memory;
}

result<shared_memory> shared_memory::map(unique_fd fd, std::size_t size_bytes, access mode) {
  if (!possible(size_bytes)) {
    return fail(error_code::invalid_argument,
                "cannot map " + std::to_string(size_bytes) + " bytes of shared memory");
  }
  if (auto ok = check_foreign(fd.get(), size_bytes); !ok) return tl::unexpected(ok.error());
  const int protection = mode == access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  auto address = map_shared(fd.get(), size_bytes, protection);
  if (!address) return tl::unexpected(address.error());
  shared_memory memory;
  memory.fd_ = std::move(fd);
  memory.data_ = *address;
  memory.size_ = size_bytes;
  return memory;
}

result<void> shared_memory::copy_to(std::span<std::byte> target) const {
  FTRT_ASSERT(target.size() <= size_);
  const auto count = copiers_for(target.size());
  const auto each = target.size() / count;
  std::array<int, most_copiers> failures{};
  const bool from_mapping = touched();
  const auto copy_part = [&](std::size_t part) {
    const auto offset = part * each;
    const auto bytes = target.subspan(offset, part + 1 == count ? target.size() - offset : each);
    if (from_mapping) {
      std::memcpy(bytes.data(), data_ + offset, bytes.size());
    } else {
      failures[part] = read_at(fd_.get(), offset, bytes);
    }
  };
  std::array<std::jthread, most_copiers> helpers;
  for (std::size_t part = 1; part < count; ++part) {
    try {
      helpers.at(part) = std::jthread{copy_part, part};
    } catch (const std::exception&) {
      copy_part(part);  // no thread to be had, or no memory for one: slower, and as good
    }
  }
  copy_part(0);
  for (auto& helper : helpers) helper = {};  // joins it
  for (const int failure : failures) {
    if (failure != 0) return fail_errno("reading shared memory", failure);
  }
  return {};
}

result<std::size_t> shared_memory::touch(std::size_t at_most_bytes) {
  const auto begin = touched_bytes_.load(std::memory_order_relaxed);
  const auto slice = bytes().subspan(begin).first(std::min(at_most_bytes, size_ - begin));
  if (const int failure = touch_pages(slice); failure != 0) {
    return fail_errno("touching shared memory", failure);
  }
  touched_bytes_.store(begin + slice.size(), std::memory_order_release);
  return size_ - begin - slice.size();
}

std::size_t shared_memory::let_go(std::size_t at_most_bytes) {
  const auto end = touched_bytes_.load(std::memory_order_relaxed);
  auto begin = end - std::min(at_most_bytes, end);
  begin -= begin % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  touched_bytes_.store(begin, std::memory_order_release);
  // Shared memory is not lost by this. Where the kernel refuses, the end of the mapping does it.
  if (end > begin) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
  return begin;
}

shared_memory::~shared_memory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

shared_memory::shared_memory(shared_memory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      touched_bytes_(other.touched_bytes_.exchange(0)) {}

shared_memory& shared_memory::operator=(shared_memory&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) ::munmap(data_, size_);
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  touched_bytes_ = other.touched_bytes_.exchange(0);
  return *this;
}

}  // namespace ftrt::storage
