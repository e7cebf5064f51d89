#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// What a process has mapped of files, memfds among them.
namespace ftrt::test {

struct mapped_file {
  std::string access;  // "rw-s"
  std::string path;    // "/memfd:state"
  ino_t inode = 0;
  std::size_t present_bytes = 0;
};

// All that a process has mapped of files, in the order of addresses. Empty: the process is gone, or
// has none.
inline std::vector<mapped_file> mapped_files(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/smaps"};
  std::vector<mapped_file> found;
  bool of_file = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string range, offset, device;
    mapped_file mapped;
    if (line.starts_with("Rss:")) {
      std::size_t kb = 0;
      if (words >> range >> kb; of_file) found.back().present_bytes = kb * 1024;
    } else if (words >> range >> mapped.access >> offset >> device >> mapped.inode) {
      of_file = static_cast<bool>(words >> mapped.path);
      if (of_file) found.push_back(std::move(mapped));
    }
  }
  return found;
}

// Of each file that is mapped read-only and shared: its inode, and how many bytes of it are present
// in the process. Of memfds of this name alone.
inline std::map<ino_t, std::size_t> foreign_mappings(pid_t pid, const std::string& name) {
  std::map<ino_t, std::size_t> present;
  for (const auto& each : mapped_files(pid)) {
    if (each.access != "r--s" || each.path != "/memfd:" + name) continue;
    present[each.inode] += each.present_bytes;
  }
  return present;
}

inline ino_t inode_of(int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
}

}  // namespace ftrt::test
