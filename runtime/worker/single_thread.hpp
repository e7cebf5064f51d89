#pragma once

#include <string>
#include <vector>

namespace ftrt::worker {

// Makes ATen's operators of the calling thread run on this thread alone; first thing on every
// thread that runs them. Together with OMP_NUM_THREADS=1 before exec (docs/adr/0002): results must
// not depend on how work was cut, and a thread pool does not survive fork().
void use_one_thread();

// Names of this process's threads except the calling one ("comm" of /proc/self/task).
[[nodiscard]] std::vector<std::string> other_threads();

}  // namespace ftrt::worker
