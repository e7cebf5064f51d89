#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <runtime/worker/log.hpp>
#include <runtime/worker/process_setup.hpp>

namespace ftrt::worker {
namespace {

constexpr std::array thread_variables{"OMP_NUM_THREADS", "MKL_NUM_THREADS"};
// Above every ordinary process, so that the kernel takes a replaceable rank, not its supervisor.
constexpr std::string_view oom_score = "500";

struct argument_area {
  char* begin = nullptr;
  std::size_t size = 0;
};
argument_area arguments;

bool one_thread_environment() {
  return std::all_of(thread_variables.begin(), thread_variables.end(), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::strcmp(value, "1") == 0;
  });
}

void reset_signals() {
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void allow_core_files(bool allowed) {
  rlimit limit{};
  if (allowed || ::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = 0;
  ::setrlimit(RLIMIT_CORE, &limit);
}

// Best effort: a container may forbid it.
void offer_to_oom_killer() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const auto written = ::write(fd, oom_score.data(), oom_score.size());
  ::close(fd);
}

}  // namespace

void remember_arguments(int argc, char** argv) {
  if (argc < 1) return;
  const char* last = argv[argc - 1];
  arguments.begin = argv[0];
  arguments.size = static_cast<std::size_t>(last + std::strlen(last) + 1 - argv[0]);
}

void set_process_title(std::string_view title) {
  if (arguments.size < 2) return;
  const auto length = std::min(title.size(), arguments.size - 1);
  std::memset(arguments.begin, 0, arguments.size);
  std::memcpy(arguments.begin, title.data(), length);
}

void close_inherited_descriptors(int keep) {
  constexpr unsigned first = STDERR_FILENO + 1;
  const auto kept = static_cast<unsigned>(keep);
  if (kept > first) ::close_range(first, kept - 1, 0);
  ::close_range(std::max(kept + 1, first), ~0U, 0);
}

void ignore_terminal_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
}

result<void> become_worker(int standard_error, bool core_dumps) {
  reset_signals();
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(standard_error, stream) < 0) return fail_errno("dup2", errno);
  }
  allow_core_files(core_dumps);
  offer_to_oom_killer();
  return {};
}

void be_named_after(rank_id rank, incarnation_id incarnation) {
  const auto number = std::to_string(incarnation.value());
  const auto name = "ftrt-rank-" + std::to_string(rank.value());
  ::prctl(PR_SET_NAME, name.c_str());
  set_process_title(name + " (incarnation " + number + ")");
  set_log_name("rank " + std::to_string(rank.value()) + "." + number);
}

void be_named_spare() {
  ::prctl(PR_SET_NAME, "ftrt-spare");
  set_process_title("ftrt-spare");
  set_log_name("spare");
}

result<void> ensure_one_thread_environment(char** argv) {
  if (one_thread_environment()) return {};
  for (const char* name : thread_variables) {
    if (::setenv(name, "1", 1) != 0) return fail_errno("setenv", errno);
  }
  ::execv("/proc/self/exe", argv);
  return fail_errno("cannot start again with OMP_NUM_THREADS=1 and MKL_NUM_THREADS=1", errno);
}

}  // namespace ftrt::worker
