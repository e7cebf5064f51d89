#include <ATen/Parallel.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <runtime/worker/single_thread.hpp>
#include <system_error>

namespace ftrt::worker {

void use_one_thread() {
  at::init_num_threads();
}

std::vector<std::string> other_threads() {
  std::vector<std::string> names;
  const auto own = std::to_string(::gettid());
  std::error_code fault;
  for (std::filesystem::directory_iterator it{"/proc/self/task", fault}, end; !fault && it != end;
       it.increment(fault)) {
    if (it->path().filename() == own) continue;
    std::string name;
    std::getline(std::ifstream{it->path() / "comm"}, name);
    names.push_back(name.empty() ? "?" : name);
  }
  return names;
}

}  // namespace ftrt::worker
