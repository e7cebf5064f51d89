#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <actors/host/zygote_process.hpp>
#include <cstdlib>
#include <cstring>
#include <schemas/protocol/channel.hpp>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace ftrt::host {
namespace {

// LibTorch's results depend on its thread count, and OpenMP reads it before main().
std::vector<std::string> worker_environment() {
  constexpr std::string_view fixed[] = {
      "OMP_NUM_THREADS=", "MKL_NUM_THREADS=", "OPENBLAS_NUM_THREADS="};
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable{*entry};
    bool replaced = false;
    for (const auto name : fixed) replaced = replaced || variable.starts_with(name);
    if (!replaced) variables.emplace_back(variable);
  }
  for (const auto name : fixed) variables.push_back(std::string{name} + "1");
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (auto& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct spawn_attributes {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  spawn_attributes() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~spawn_attributes() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
};

// SIGKILL does not end a process that waits for a device; whoever ends it goes on without it.
constexpr int patience_after_kill_ms = 5000;
// The child sees the channel as this descriptor.
constexpr int channel_in_child = 3;

result<pid_t> spawn_child(const std::filesystem::path& program, int channel) {
  std::vector<std::string> arguments{program.string(), "--zygote", "--channel",
                                     std::to_string(channel_in_child)};
  auto variables = worker_environment();
  spawn_attributes spawn;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_addopen(&spawn.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // Standard output belongs to the host program alone.
  posix_spawn_file_actions_adddup2(&spawn.actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.actions, channel, channel_in_child);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, program.c_str(), &spawn.actions, &spawn.attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  if (failed != 0) return fail_errno("cannot start " + program.string(), failed);
  return pid;
}

bool is_program(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

result<zygote_process> zygote_process::spawn(const std::filesystem::path& worker_program,
                                             const std::string& scenario_toml, bool check_only) {
  auto ends = protocol::socket_pair(SOCK_SEQPACKET);
  if (!ends) return tl::unexpected(ends.error());
  zygote_process zygote;
  zygote.channel_ = std::move(ends->first);
  // dup2 of a descriptor onto itself would leave it close-on-exec.
  auto theirs = std::move(ends->second);
  if (theirs.get() == channel_in_child) {
    auto moved = theirs.duplicate();
    if (!moved) return tl::unexpected(moved.error());
    theirs = std::move(*moved);
  }
  auto pid = spawn_child(worker_program, theirs.get());
  if (!pid) return tl::unexpected(pid.error());
  zygote.pid_ = *pid;
  if (auto sent = protocol::send_packet(zygote.channel(),
                                        protocol::zygote_configure{scenario_toml, check_only}, {});
      !sent) {
    return tl::unexpected(sent.error());
  }
  return zygote;
}

zygote_process::zygote_process(zygote_process&& other) noexcept
    : channel_(std::move(other.channel_)), pid_(std::exchange(other.pid_, -1)) {}

zygote_process& zygote_process::operator=(zygote_process&& other) noexcept {
  if (this != &other) {
    end(std::chrono::milliseconds{0});
    channel_ = std::move(other.channel_);
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

zygote_process::~zygote_process() {
  end(std::chrono::milliseconds{0});
}

void zygote_process::end(std::chrono::milliseconds patience) {
  channel_.reset();
  if (pid_ <= 0) return;
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd gone{pidfd, POLLIN, 0};
  bool is_gone = pidfd >= 0 && ::poll(&gone, 1, static_cast<int>(patience.count())) == 1;
  if (!is_gone) {
    ::kill(pid_, SIGKILL);
    is_gone = pidfd < 0 || ::poll(&gone, 1, patience_after_kill_ms) == 1;
  }
  if (pidfd >= 0) ::close(pidfd);
  while (::waitpid(pid_, nullptr, is_gone ? 0 : WNOHANG) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

result<std::filesystem::path> find_worker_program(const std::filesystem::path& requested) {
  if (!requested.empty()) {
    if (is_program(requested)) return std::filesystem::absolute(requested);
    return fail(error_code::not_found,
                "worker program '" + requested.string() + "' is no executable file");
  }
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto beside = self.parent_path() / "ftrt-worker";
  if (is_program(beside)) return beside;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const auto candidate = std::filesystem::path{rest.substr(0, colon)} / "ftrt-worker";
    if (is_program(candidate)) return candidate;
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  }
  return fail(error_code::not_found, "ftrt-worker is neither beside " + self.string() +
                                         " nor in PATH; build it, or name it in "
                                         "run_options::worker_program");
}

}  // namespace ftrt::host
