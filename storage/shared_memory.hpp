#pragma once

#include <atomic>
#include <cstddef>
#include <ftrt/error.hpp>
#include <schemas/unique_fd.hpp>
#include <span>
#include <string>

namespace ftrt::storage {

using ftrt::unique_fd;

// A memfd of fixed size mapped into this process. Created sealed against growing, shrinking and
// further seals, so that a reader can never be hit by SIGBUS because a writer truncated it.
// Zero-filled, page-aligned. What another process wrote there is untrusted input.
//
//   auto memory = shared_memory::create("ftrt-progress", 1 << 20);
//   auto same = shared_memory::map(received_fd, 1 << 20, shared_memory::access::read_only);
//
// Move-only; unmaps and closes on destruction, which takes 10-20 ms for each GB that was touched
// and holds up every other thread of the process that maps or unmaps: let_go() first where that
// matters. Not synchronised: the layouts in it are.
class shared_memory {
 public:
  enum class access { read_only, read_write };

  // `name` shows up in /proc/PID/maps. size_bytes > 0.
  [[nodiscard]] static result<shared_memory> create(const std::string& name,
                                                    std::size_t size_bytes);

  // Maps a descriptor that came from another process. Refuses (corrupt) one that is not sealed
  // against shrinking or is smaller than `size_bytes`.
  [[nodiscard]] static result<shared_memory> map(unique_fd fd, std::size_t size_bytes, access mode);

  shared_memory() = default;
  ~shared_memory();
  shared_memory(shared_memory&& other) noexcept;
  shared_memory& operator=(shared_memory&& other) noexcept;
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

  // Copies the first target.size() bytes, on as many threads as there are cores (at most four)
  // where that is much. From the mapping where all of it was touched by touch(), else from the
  // descriptor: of memory that this process has not touched yet, each page would cost a fault. Not
  // atomic against writers. Blocks for the copy.
  [[nodiscard]] result<void> copy_to(std::span<std::byte> target) const;

  // Makes the next pages present in this process, at most so many bytes (a multiple of the page
  // size), and says how many bytes are left. The kernel keeps other threads from mapping memory
  // meanwhile: ask for a few MB at a time, and not at a low priority. An error: the kernel has no
  // memory for it, or none of the file's; what was touched before stays so.
  [[nodiscard]] result<std::size_t> touch(std::size_t at_most_bytes);
  // The reverse: takes pages that touch() made present out of this process, the last first, and
  // says how many bytes are left. What is in them stays where it is, in the file.
  std::size_t let_go(std::size_t at_most_bytes);
  // Whether touch() has reached the end. One thread touches and lets go; any may ask.
  [[nodiscard]] bool touched() const {
    return size_ > 0 && touched_bytes_.load(std::memory_order_acquire) == size_;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const unique_fd& fd() const { return fd_; }
  [[nodiscard]] bool valid() const { return data_ != nullptr; }

 private:
  unique_fd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::size_t> touched_bytes_{0};  // from the beginning
};

}  // namespace ftrt::storage
