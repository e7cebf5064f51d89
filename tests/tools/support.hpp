#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <tests/support/environment.hpp>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::test {

// A file to write to by descriptor, as stdout would be.
class captured {
 public:
  captured() : file_(std::tmpfile()) {}
  ~captured() { std::fclose(file_); }
  captured(const captured&) = delete;
  captured& operator=(const captured&) = delete;

  [[nodiscard]] int fd() const { return ::fileno(file_); }
  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 4096> part{};
    ssize_t got = 0;
    while ((got = ::pread(fd(), part.data(), part.size(), static_cast<off_t>(all.size()))) > 0) {
      all.append(part.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  std::FILE* file_;
};

}  // namespace ftrt::test
