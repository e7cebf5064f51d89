#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <storage/event_log.hpp>
#include <storage/file_ops.hpp>

namespace ftrt::storage {
namespace {

// Keys in the order in which people read them.
using json = nlohmann::ordered_json;

constexpr std::uint64_t max_log_bytes = std::uint64_t{4} << 30;

// Whether a file has a last line without an end.
result<bool> ends_torn(int fd, const std::filesystem::path& file) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return fail_errno("fstat of " + file.string(), errno);
  if (found.st_size == 0) return false;
  char last = 0;
  if (::pread(fd, &last, 1, found.st_size - 1) != 1) {
    return fail_errno("reading the end of " + file.string(), errno);
  }
  return last != '\n';
}

template <class T>
bool take(const json& object, const char* key, T& value) {
  const auto at = object.find(key);
  if (at == object.end()) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!at->is_string()) return false;
  } else if (!at->is_number_integer()) {
    return false;
  }
  value = at->get<T>();
  return true;
}

bool parse_line(std::string_view line, event& what) {
  const auto object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  std::string kind;
  if (!object.is_object() || !take(object, "kind", kind)) return false;
  if (!parse_event_kind(kind, what.what)) return false;
  if (!take(object, "rank", what.rank)) what.rank = -1;
  return take(object, "time_ms", what.wall_time_ms) &&
         take(object, "generation", what.generation) && take(object, "iteration", what.iteration) &&
         take(object, "subject", what.subject) && take(object, "text", what.text);
}

}  // namespace

std::string to_json_line(const event& what) {
  json line{{"time_ms", what.wall_time_ms},
            {"kind", to_string(what.what)},
            {"generation", what.generation},
            {"iteration", what.iteration},
            {"rank", what.rank < 0 ? json(nullptr) : json(what.rank)},
            {"subject", what.subject},
            {"text", what.text}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

result<event_log> event_log::open(const std::filesystem::path& file) {
  unique_fd fd{::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666)};
  if (!fd.valid()) return fail_errno("opening " + file.string(), errno);
  const auto torn = ends_torn(fd.get(), file);
  if (!torn) return tl::unexpected(torn.error());
  return event_log{std::move(fd), *torn};
}

result<void> event_log::append(const event& what) {
  const auto line = (torn_ ? "\n" : "") + to_json_line(what) + "\n";
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return fail_errno("appending to the event log", errno);
  // A full disk may take a part of it: what is left of the line stands alone from now on.
  torn_ = static_cast<std::size_t>(written) < line.size();
  if (!torn_) return {};
  return fail(error_code::no_space, "the event log took " + std::to_string(written) + " of " +
                                        std::to_string(line.size()) + " bytes; is the disk full?");
}

result<void> event_log::sync() {
  if (::fdatasync(fd_.get()) == 0) return {};
  return fail_errno("syncing the event log", errno);
}

result<event_log_content> read_event_log(const std::filesystem::path& file) {
  const auto bytes = read_file(file, max_log_bytes);
  if (!bytes) return tl::unexpected(bytes.error());
  std::string_view rest{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  event_log_content content;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (line.empty()) continue;
    event what;
    if (parse_line(line, what)) {
      content.events.push_back(std::move(what));
    } else {
      ++content.skipped_lines;
    }
  }
  return content;
}

}  // namespace ftrt::storage
