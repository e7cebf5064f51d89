#include <actors/metrics/tensorboard_writer.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <actors/metrics/event.pb.h>
#include <actors/metrics/record.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace ftrt::metrics {
namespace {

namespace format = tensorboard_format;
using wall_clock = tensorboard_writer::wall_clock;

double seconds_of(wall_clock::time_point when) {
  return std::chrono::duration<double>(when.time_since_epoch()).count();
}

void append_event(std::string& out, const format::Event& event) {
  append_record(out, event.SerializeAsString());
}

// What every file begins with.
std::string preamble(iteration_id first_step, wall_clock::time_point now) {
  std::string bytes;
  format::Event version;
  version.set_wall_time(seconds_of(now));
  version.set_file_version("brain.Event:2");
  append_event(bytes, version);
  format::Event start;
  start.set_wall_time(seconds_of(now));
  start.set_step(static_cast<std::int64_t>(first_step.value()));
  start.mutable_session_log()->set_status(format::SessionLog::START);
  append_event(bytes, start);
  return bytes;
}

iteration_id before(iteration_id step) {
  return iteration_id{step.value() == 0 ? 0 : step.value() - 1};
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0 || buffer[0] == '\0') return "localhost";
  std::string name{buffer.data()};
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

result<std::vector<std::string>> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code fault;
  for (std::filesystem::directory_iterator it{directory, fault}, end; !fault && it != end;
       it.increment(fault)) {
    names.push_back(it->path().filename().string());
  }
  if (fault) return fail_errno("cannot list " + directory.string(), fault.value());
  return names;
}

result<int> lock_directory(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail_errno("cannot open " + directory.string(), errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  ::close(fd);
  return fail(error_code::busy, "another process writes TensorBoard events into " +
                                    directory.string() + "; two writers would hide each other");
}

}  // namespace

result<tensorboard_writer> tensorboard_writer::open(const std::filesystem::path& directory,
                                                    iteration_id first_step) {
  std::error_code fault;
  std::filesystem::create_directories(directory, fault);
  if (fault) return fail_errno("cannot create " + directory.string(), fault.value());
  const auto lock = lock_directory(directory);
  if (!lock) return tl::unexpected(lock.error());
  tensorboard_writer writer{directory, *lock};
  if (auto begun = writer.restart(first_step); !begun) return tl::unexpected(begun.error());
  return writer;
}

tensorboard_writer::tensorboard_writer(std::filesystem::path directory, int lock_fd)
    : directory_(std::move(directory)), lock_fd_(lock_fd) {}

tensorboard_writer::tensorboard_writer(tensorboard_writer&& other) noexcept
    : directory_(std::move(other.directory_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      file_(std::move(other.file_)),
      pending_(std::exchange(other.pending_, {})),
      next_start_(other.next_start_),
      newest_step_(other.newest_step_) {}

tensorboard_writer::~tensorboard_writer() {
  if (lock_fd_ < 0) return;
  // Nobody is left to tell; a point less is the worst of it.
  if (!pending_.empty()) static_cast<void>(flush());
  ::close(lock_fd_);
}

result<void> tensorboard_writer::begin_file(iteration_id first_step) {
  const auto names = names_in(directory_);
  if (!names) return tl::unexpected(names.error());
  const auto now = wall_clock::now();
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const auto name = next_event_file_name(*names, seconds, host_name(), ::getpid());
  auto created = event_file::create(directory_ / name.text());
  if (!created) return tl::unexpected(created.error());
  if (auto written = created->append(preamble(first_step, now)); !written) {
    ::unlink(created->path().c_str());
    return written;
  }
  file_ = std::move(*created);
  next_start_.reset();
  return {};
}

result<void> tensorboard_writer::add(iteration_id step, wall_clock::time_point when,
                                     std::span<const scalar> points) {
  if (pending_.size() >= backlog_limit_bytes) {
    if (auto flushed = flush(); !flushed) return flushed;
  }
  format::Event event;
  event.set_wall_time(seconds_of(when));
  event.set_step(static_cast<std::int64_t>(step.value()));
  for (const auto& point : points) {
    auto* value = event.mutable_summary()->add_value();
    value->set_tag(std::string{point.tag});
    value->set_simple_value(static_cast<float>(point.value));
  }
  append_event(pending_, event);
  newest_step_ = std::max(newest_step_, step);
  return pending_.size() < buffer_limit_bytes ? result<void>{} : flush();
}

result<void> tensorboard_writer::restart(iteration_id first_step) {
  // What is pending belongs before the new START; where the disk refuses it now, it is lost.
  if (!pending_.empty() && !flush()) pending_.clear();
  next_start_ = first_step;
  newest_step_ = before(first_step);
  return flush();
}

result<void> tensorboard_writer::flush(durability how) {
  // A file that had to be given up is followed by one that must not make readers forget anything,
  // so it starts behind the newest step.
  if (!next_start_ && !file_.usable()) next_start_ = newest_step_.next();
  if (next_start_) {
    if (auto begun = begin_file(*next_start_); !begun) return begun;
  }
  if (!pending_.empty()) {
    if (auto written = file_.append(pending_); !written) return written;
    pending_.clear();
  }
  return how == durability::disk ? file_.sync() : result<void>{};
}

}  // namespace ftrt::metrics
