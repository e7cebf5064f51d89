#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <schemas/unique_fd.hpp>
#include <storage/file_ops.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

constexpr const char* temporary_suffix = ".tmp";

result<void> checked(int outcome, std::string_view doing, const fs::path& path) {
  if (outcome == 0) return {};
  return fail_errno(std::string{doing} + " " + path.string(), errno);
}

class system_output_file final : public output_file {
 public:
  system_output_file(unique_fd fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  result<void> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fail_errno("writing " + path_.string(), errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  result<void> sync() override { return checked(::fsync(fd_.get()), "syncing", path_); }

 private:
  unique_fd fd_;
  fs::path path_;
};

class system_file_ops final : public file_ops {
 public:
  result<std::unique_ptr<output_file>> create(const fs::path& file) override {
    unique_fd fd{::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666)};
    if (!fd.valid()) return fail_errno("creating " + file.string(), errno);
    return std::make_unique<system_output_file>(std::move(fd), file);
  }

  result<void> rename(const fs::path& from, const fs::path& to) override {
    return checked(::rename(from.c_str(), to.c_str()), "renaming to", to);
  }

  result<void> sync_directory(const fs::path& directory) override {
    const unique_fd fd{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!fd.valid()) return fail_errno("opening folder " + directory.string(), errno);
    return checked(::fsync(fd.get()), "syncing folder", directory);
  }

  result<void> make_directory(const fs::path& directory) override {
    if (::mkdir(directory.c_str(), 0777) == 0 || errno == EEXIST) return {};
    return fail_errno("making folder " + directory.string(), errno);
  }

  result<void> remove_file(const fs::path& file) override {
    if (::unlink(file.c_str()) == 0 || errno == ENOENT) return {};
    return fail_errno("removing " + file.string(), errno);
  }

  result<void> remove_directory(const fs::path& directory) override {
    if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return {};
    return fail_errno("removing folder " + directory.string(), errno);
  }

  std::vector<std::string> list(const fs::path& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at{directory, error}, end; !error && at != end;
         at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

result<void> write_and_rename(file_ops& files, const fs::path& file,
                              std::span<const std::byte> content) {
  auto out = files.create(temporary_name(file));
  if (!out) return tl::unexpected(out.error());
  if (auto ok = (*out)->write(content); !ok) return ok;
  if (auto ok = (*out)->sync(); !ok) return ok;
  if (auto ok = files.rename(temporary_name(file), file); !ok) return ok;
  return files.sync_directory(file.parent_path());
}

}  // namespace

file_ops& system_files() {
  static system_file_ops files;
  return files;
}

result<void> publish_file(file_ops& files, const fs::path& file,
                          std::span<const std::byte> content) {
  auto ok = write_and_rename(files, file, content);
  // Best effort: the error that is reported is the one that came first.
  if (!ok) static_cast<void>(files.remove_file(temporary_name(file)));
  return ok;
}

fs::path temporary_name(const fs::path& file) {
  return file.string() + temporary_suffix;
}

bool is_temporary(const fs::path& file) {
  return file.extension() == temporary_suffix;
}

bool is_gone(const fs::path& file) {
  std::error_code ignored;
  return fs::status(file, ignored).type() == fs::file_type::not_found;
}

result<std::vector<std::byte>> read_file(const fs::path& file, std::uint64_t limit_bytes) {
  const unique_fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd.valid()) return fail_errno("opening " + file.string(), errno);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return fail_errno("fstat of " + file.string(), errno);
  if (!S_ISREG(found.st_mode)) {
    return fail(error_code::corrupt, file.string() + " is not a regular file");
  }
  if (static_cast<std::uint64_t>(found.st_size) > limit_bytes) {
    return fail(error_code::corrupt, file.string() + " has " + std::to_string(found.st_size) +
                                         " bytes, at most " + std::to_string(limit_bytes) +
                                         " were expected");
  }
  std::vector<std::byte> content(static_cast<std::size_t>(found.st_size));
  std::size_t have = 0;
  while (have < content.size()) {
    const auto got = ::read(fd.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("reading " + file.string(), errno);
    if (got == 0) break;  // it became shorter: whoever checks the length will say so
    have += static_cast<std::size_t>(got);
  }
  content.resize(have);
  return content;
}

}  // namespace ftrt::storage
