#include "tools/ftrt/guard.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

// More lives than any scenario asks for: somebody kills it who will not stop.
constexpr int most_lives = 1000;

sigset_t only(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  return set;
}

struct ended_life {
  int status = 0;
  std::filesystem::path run_directory;
};

class guarded_process {
 public:
  guarded_process(const std::function<int(const life&)>& perform,
                  const std::filesystem::path& to_resume) {
    if (::pipe2(pipe_.data(), O_CLOEXEC) != 0) return;
    const auto parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) live(perform, to_resume, parent);
    ::close(pipe_[1]);
  }
  ~guarded_process() {
    if (pid_ > 0) ::close(pipe_[0]);
  }
  guarded_process(const guarded_process&) = delete;
  guarded_process& operator=(const guarded_process&) = delete;

  [[nodiscard]] bool started() const { return pid_ > 0; }
  void pass_on(int number) const { ::kill(pid_, number); }

  // Empty: it lives on.
  [[nodiscard]] std::optional<ended_life> ended() const {
    ended_life end;
    if (::waitpid(pid_, &end.status, WNOHANG) != pid_) return std::nullopt;
    std::string told;
    std::array<char, 4096> bytes{};
    ssize_t count = 0;
    while ((count = ::read(pipe_[0], bytes.data(), bytes.size())) > 0) {
      told.append(bytes.data(), static_cast<std::size_t>(count));
    }
    end.run_directory = told;
    return end;
  }

 private:
  [[noreturn]] void live(const std::function<int(const life&)>& perform,
                         const std::filesystem::path& to_resume, pid_t parent) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(128 + SIGKILL);
    ::setpgid(0, 0);  // what a terminal sends comes from the guard alone, once
    const auto child_signal = only({SIGCHLD});
    ::sigprocmask(SIG_UNBLOCK, &child_signal, nullptr);
    ::close(pipe_[0]);
    const auto tell = [fd = pipe_[1]](const std::filesystem::path& directory) {
      const auto text = directory.string();
      [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
    };
    std::exit(perform({to_resume, tell}));
  }

  std::array<int, 2> pipe_{-1, -1};
  pid_t pid_ = -1;
};

ended_life wait_for(const guarded_process& process, std::optional<int>& stopped_by) {
  const auto awaited = only({SIGCHLD, SIGINT, SIGTERM, SIGHUP});
  while (true) {
    if (auto end = process.ended()) return std::move(*end);
    const int number = ::sigwaitinfo(&awaited, nullptr);
    if (number < 0 || number == SIGCHLD) continue;
    stopped_by = number;
    process.pass_on(number);
  }
}

}  // namespace

int guard(const std::function<int(const life&)>& perform, output& errors) {
  const auto child_signal = only({SIGCHLD});
  ::sigprocmask(SIG_BLOCK, &child_signal, nullptr);
  std::filesystem::path run_directory;
  std::optional<int> stopped_by;
  for (int lives = 1;; ++lives) {
    const guarded_process process{perform, run_directory};
    if (!process.started()) {
      errors.write(std::string{"ftrt: cannot fork: "} + std::strerror(errno) + '\n');
      return 1;
    }
    // A stop that a life before was asked for is still asked for.
    if (stopped_by) process.pass_on(*stopped_by);
    const auto end = wait_for(process, stopped_by);
    if (WIFEXITED(end.status)) return WEXITSTATUS(end.status);
    if (!end.run_directory.empty()) run_directory = end.run_directory;
    const bool killed = WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL;
    if (!killed || run_directory.empty() || lives == most_lives) return 128 + WTERMSIG(end.status);
    errors.write("ftrt: killed by SIGKILL; resuming " + printable(run_directory.string()) + '\n');
  }
}

}  // namespace ftrt::cli
