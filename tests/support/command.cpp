#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <tests/support/command.hpp>

namespace ftrt::test {

command_result run_command(const std::string& line) {
  command_result result;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> text{};
  while (const auto size = std::fread(text.data(), 1, text.size(), pipe)) {
    result.out.append(text.data(), size);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

}  // namespace ftrt::test
