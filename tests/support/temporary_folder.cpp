#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <tests/support/temporary_folder.hpp>

namespace ftrt::test {

namespace fs = std::filesystem;

temporary_folder::temporary_folder(const fs::path& under) {
  const bool usable = !under.empty() && ::access(under.c_str(), W_OK) == 0;
  auto name = ((usable ? under : fs::temp_directory_path()) / "ftrt-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"cannot make " + name};
  path_ = name;
}

temporary_folder::~temporary_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::size_t temporary_folder::entries() const {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{path_}, {}));
}

}  // namespace ftrt::test
