#pragma once

#include <cstddef>
#include <filesystem>

namespace ftrt::test {

// A folder of one test, gone with the object. Made under the system's temporary one, or `under`
// where that can be written to: in memory, a test that makes thousands of files need not wait for a
// disk. Throws std::runtime_error where it cannot be made.
//
//   const temporary_folder folder;
//   std::ofstream{folder.path() / "small.toml"} << text;
class temporary_folder {
 public:
  explicit temporary_folder(const std::filesystem::path& under = {});
  ~temporary_folder();
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // How many files and folders lie in it.
  [[nodiscard]] std::size_t entries() const;

 private:
  std::filesystem::path path_;
};

}  // namespace ftrt::test
