#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ftrt::cli::test {

// A folder of one test, removed at its end.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ftrt-tools-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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

}  // namespace ftrt::cli::test
