#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <actors/host/log.hpp>
#include <actors/host/stop_watch.hpp>
#include <array>
#include <cstdint>
#include <storage/stop_request.hpp>
#include <utility>

namespace ftrt::host {
namespace {

constexpr int look_interval_ms = 500;

bool is_readable(int fd) {
  pollfd poll{fd, POLLIN, 0};
  return fd >= 0 && ::poll(&poll, 1, 0) == 1;
}

}  // namespace

stop_watch::stop_watch(std::filesystem::path directory, std::string hold_token,
                       std::function<void(const std::string& reason)> on_request)
    : directory_(std::move(directory)),
      hold_token_(std::move(hold_token)),
      on_request_(std::move(on_request)),
      news_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      end_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // A request comes by a rename. Without the watch it is found all the same, only later.
  if (!news_.valid() || ::inotify_add_watch(news_.get(), directory_.c_str(), IN_MOVED_TO) < 0) {
    log().debug("no inotify in {}: requests to stop are looked for", directory_.string());
  }
  thread_ = std::thread{[this] { watch(); }};
}

stop_watch::~stop_watch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(end_fd_.get(), &one, sizeof one);
  thread_.join();
}

void stop_watch::watch() {
  while (!is_readable(end_fd_.get())) {
    if (const auto reason = storage::take_stop_request(directory_, hold_token_)) {
      on_request_(*reason);
    }
    wait_for_news();
  }
}

void stop_watch::wait_for_news() const {
  std::array<pollfd, 2> fds{pollfd{end_fd_.get(), POLLIN, 0}, pollfd{news_.get(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), look_interval_ms);
  std::array<char, 4096> ignored{};
  while (fds[1].revents != 0 && ::read(news_.get(), ignored.data(), ignored.size()) > 0) {
  }
}

}  // namespace ftrt::host
