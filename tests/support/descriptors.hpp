#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <schemas/unique_fd.hpp>
#include <string>

namespace ftrt::test {

// From now on the descriptor, whoever holds it, is one of that file. False: it is what it was.
[[nodiscard]] inline bool reopen(const unique_fd& descriptor, const std::string& path, int flags) {
  const unique_fd file{::open(path.c_str(), flags | O_CLOEXEC)};
  return file.valid() && ::dup3(file.get(), descriptor.get(), O_CLOEXEC) >= 0;
}

}  // namespace ftrt::test
