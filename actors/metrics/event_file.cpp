#include <actors/metrics/event_file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

namespace ftrt::metrics {
namespace {

constexpr std::string_view prefix = "events.out.tfevents.";

template <class Integer>
bool parse_integer(std::string_view text, Integer& out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc{} && end == text.data() + text.size();
}

// Cuts the part behind the last dot off; the host may have dots of its own.
std::string_view take_last_part(std::string_view& text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const auto part = text.substr(dot + 1);
  text = text.substr(0, dot);
  return part;
}

std::optional<event_file_name> newest_of(const std::vector<std::string>& existing) {
  std::optional<event_file_name> newest;
  std::string newest_text;
  for (const auto& name : existing) {
    event_file_name parsed;
    if (!event_file_name::parse(name, parsed) || (newest && name <= newest_text)) continue;
    newest = std::move(parsed);
    newest_text = name;
  }
  return newest;
}

}  // namespace

std::string event_file_name::text() const {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(seconds));
  char tail[64];
  std::snprintf(tail, sizeof tail, ".%lld.%06llu", static_cast<long long>(pid),
                static_cast<unsigned long long>(number));
  return std::string{prefix} + digits + "." + host + tail;
}

bool event_file_name::parse(std::string_view name, event_file_name& out) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const auto dot = name.find('.');
  if (dot == std::string_view::npos || !parse_integer(name.substr(0, dot), out.seconds)) {
    return false;
  }
  name.remove_prefix(dot + 1);
  if (!parse_integer(take_last_part(name), out.number)) return false;
  if (!parse_integer(take_last_part(name), out.pid)) return false;
  out.host = std::string{name};
  return true;
}

event_file_name next_event_file_name(const std::vector<std::string>& existing,
                                     std::int64_t now_seconds, const std::string& host,
                                     std::int64_t pid) {
  const auto newest = newest_of(existing);
  if (!newest || newest->seconds < now_seconds) return {now_seconds, host, pid, 0};
  if (newest->host == host && newest->pid == pid) {
    return {newest->seconds, host, pid, newest->number + 1};
  }
  return {newest->seconds + 1, host, pid, 0};
}

result<event_file> event_file::create(const std::filesystem::path& path) {
  event_file file;
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return fail_errno("cannot create event file " + path.string(), errno);
  file.path_ = path;
  return file;
}

event_file::~event_file() {
  close();
}

event_file::event_file(event_file&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      good_bytes_(other.good_bytes_),
      path_(std::move(other.path_)) {}

event_file& event_file::operator=(event_file&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  good_bytes_ = other.good_bytes_;
  path_ = std::move(other.path_);
  return *this;
}

result<void> event_file::append(std::string_view bytes) {
  FTRT_ASSERT(usable());
  std::size_t written = 0;
  while (written < bytes.size()) {
    const auto count = ::write(fd_, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int reason = count < 0 ? errno : ENOSPC;
      if (written > 0) cut_back();
      return fail_errno("cannot write event file " + path_.string(), reason);
    }
    written += static_cast<std::size_t>(count);
  }
  good_bytes_ += bytes.size();
  return {};
}

result<void> event_file::sync() {
  FTRT_ASSERT(usable());
  if (::fdatasync(fd_) == 0) return {};
  return fail_errno("cannot sync event file " + path_.string(), errno);
}

void event_file::cut_back() {
  if (::ftruncate(fd_, static_cast<off_t>(good_bytes_)) != 0) close();
}

void event_file::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace ftrt::metrics
