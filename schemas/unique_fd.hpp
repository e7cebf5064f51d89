#pragma once

#include <ftrt/error.hpp>
#include <utility>

namespace ftrt {

// A file descriptor with an owner. Move-only; closes on destruction. Belongs to the base, as both
// halves pass descriptors to each other.
//
//   unique_fd fd{::open(path, O_RDONLY | O_CLOEXEC)};
//   if (!fd.valid()) return fail_errno("open", errno);
class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {}
  ~unique_fd() { reset(); }
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  unique_fd(const unique_fd&) = delete;
  unique_fd& operator=(const unique_fd&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes it; errno is left as it was, so that it can be called on the way out of a failure.
  void reset();
  // A second descriptor of the same file (close-on-exec).
  [[nodiscard]] result<unique_fd> duplicate() const;

 private:
  int fd_ = -1;
};

}  // namespace ftrt
