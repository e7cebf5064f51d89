#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/scenario.hpp>
#include <schemas/protocol/messages.hpp>
#include <schemas/unique_fd.hpp>
#include <string>

namespace ftrt::host {

// The process that workers are forked from, as control holds it: a pid to reap and one end of the
// zygote channel. Closing the channel ends the zygote and all its children within the grace period.
class zygote_process {
 public:
  // Starts `worker_program --zygote` and sends it the scenario. Does not wait for the answer.
  // Resets signal mask and handlers in the child, single-threads its OpenMP.
  [[nodiscard]] static result<zygote_process> spawn(const std::filesystem::path& worker_program,
                                                    const std::string& scenario_toml,
                                                    bool check_only);
  zygote_process() = default;
  zygote_process(zygote_process&& other) noexcept;
  zygote_process& operator=(zygote_process&& other) noexcept;
  ~zygote_process();

  [[nodiscard]] int channel() const { return channel_.get(); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool valid() const { return channel_.valid(); }

  // Closes the channel and reaps the process; SIGKILL after `patience`. Blocks.
  void end(std::chrono::milliseconds patience);

 private:
  unique_fd channel_;
  pid_t pid_ = -1;
};

// The program beside the running executable, else the first `ftrt-worker` in PATH.
[[nodiscard]] result<std::filesystem::path> find_worker_program(
    const std::filesystem::path& requested);

}  // namespace ftrt::host
