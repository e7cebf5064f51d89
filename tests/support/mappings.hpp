#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

// What of other processes' memory a process has mapped.
namespace ftrt::test {

// Of each file that is mapped read-only and shared: its inode, and how many bytes of it are present
// in the process. Of memfds of this name alone. Empty: the process is gone, or has none.
inline std::map<ino_t, std::size_t> foreign_mappings(pid_t pid, const std::string& name) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/smaps"};
  std::map<ino_t, std::size_t> present;
  std::size_t* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string range, access, offset, device, path;
    ino_t inode = 0;
    if (line.starts_with("Rss:")) {
      std::size_t kb = 0;
      if (words >> range >> kb; current != nullptr) *current += kb * 1024;
    } else if (words >> range >> access >> offset >> device >> inode >> path) {
      const bool ours = access == "r--s" && path == "/memfd:" + name;
      current = ours ? &present[inode] : nullptr;
    }
  }
  return present;
}

inline ino_t inode_of(int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
}

}  // namespace ftrt::test
