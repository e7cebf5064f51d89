#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <schemas/unique_fd.hpp>
#include <string>
#include <system_error>
#include <vector>

// What /proc tells of other processes.
namespace ftrt::test {

// The first line of a file of /proc/PID; of "comm" it is the command name. Empty: the process is
// gone.
inline std::string proc_line(pid_t pid, const std::string& file) {
  std::string line;
  std::getline(std::ifstream{"/proc/" + std::to_string(pid) + "/" + file}, line);
  return line;
}

// The children of a process that have this command name, which holds no space.
inline std::vector<pid_t> children_named(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator all{"/proc", failed}, end; !failed && all != end;
       all.increment(failed)) {
    std::ifstream fields{all->path() / "stat"};
    std::string command, state;
    pid_t pid = 0;
    pid_t its_parent = 0;
    if (fields >> pid >> command >> state >> its_parent && its_parent == parent &&
        command == "(" + name + ")") {
      found.push_back(pid);
    }
  }
  return found;
}

// 0: it is gone, or has none left.
inline std::size_t resident_bytes(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/statm"};
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

inline unique_fd open_pidfd(pid_t pid) {
  return unique_fd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

// Whether the process of a pidfd has ended within the time.
inline bool ends_within(const unique_fd& pidfd, std::chrono::milliseconds time) {
  pollfd end{pidfd.get(), POLLIN, 0};
  return ::poll(&end, 1, static_cast<int>(time.count())) == 1;
}

}  // namespace ftrt::test
