#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <tests/support/environment.hpp>

namespace ftrt::test {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error{std::string{name} + " is not set; run by ctest"};
  return value;
}

}  // namespace

std::filesystem::path source_tree() {
  return variable("FTRT_SOURCE");
}

std::filesystem::path programs() {
  return variable("FTRT_BIN");
}

std::string read_file(const std::filesystem::path& file) {
  // A file of /proc may vanish while it is read, which an iterator would throw for.
  std::ostringstream text;
  text << std::ifstream{file, std::ios::binary}.rdbuf();
  return text.str();
}

}  // namespace ftrt::test
