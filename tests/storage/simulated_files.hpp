#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <storage/file_ops.hpp>
#include <tests/storage/support.hpp>

namespace ftrt::storage::testing {

// A file system in memory that knows what a power cut would leave: content that was synced, names
// whose folder was synced. Everything else may or may not survive, file by file and name by name.
// After `budget` operations the machine is off: whatever is called then fails and does nothing.
class simulated_files final : public file_ops {
 public:
  explicit simulated_files(std::filesystem::path root) : root_(std::move(root)) {
    current_[root_] = durable_[root_] = node{};
  }

  void set_budget(std::size_t operations) { budget_ = operations; }
  [[nodiscard]] std::size_t operations() const { return operations_; }

  result<std::unique_ptr<output_file>> create(const std::filesystem::path& file) override {
    if (!alive()) return off();
    auto& entry = current_[file];
    if (!entry.content) entry.content = std::make_shared<file_content>();
    entry.content->now.clear();
    return std::make_unique<open_file>(*this, entry.content);
  }

  result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (!alive()) return off();
    const auto at = current_.find(from);
    if (at == current_.end()) return fail(error_code::not_found, from.string());
    current_[to] = at->second;
    current_.erase(from);
    return {};
  }

  result<void> sync_directory(const std::filesystem::path& directory) override {
    if (!alive()) return off();
    if (!current_.contains(directory)) return fail(error_code::not_found, directory.string());
    std::erase_if(durable_, [&](const auto& entry) {
      return entry.first.parent_path() == directory && !current_.contains(entry.first);
    });
    for (const auto& [path, entry] : current_) {
      if (path.parent_path() == directory) durable_[path] = entry;
    }
    return {};
  }

  result<void> make_directory(const std::filesystem::path& directory) override {
    if (!alive()) return off();
    current_.try_emplace(directory);
    return {};
  }

  result<void> remove_file(const std::filesystem::path& file) override {
    if (!alive()) return off();
    current_.erase(file);
    return {};
  }

  result<void> remove_directory(const std::filesystem::path& directory) override {
    if (!alive()) return off();
    if (!list(directory).empty()) return fail(error_code::io, directory.string() + " is not empty");
    current_.erase(directory);
    return {};
  }

  std::vector<std::string> list(const std::filesystem::path& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, entry] : current_) {
      if (path.parent_path() == directory) names.push_back(path.filename().string());
    }
    return names;
  }

  // Puts on the real disk what one possible power cut leaves of root.
  void materialise(seeded& random) const {
    auto paths = current_;
    paths.insert(durable_.begin(), durable_.end());
    for (const auto& [path, ignored] : paths) {  // parents sort before their children
      const bool was = durable_.contains(path);
      const bool is = current_.contains(path);
      const auto* entry = was ? &durable_.at(path) : nullptr;
      const bool same = was && is && current_.at(path).content == entry->content;
      if (!same && random.below(2) == 0) entry = is ? &current_.at(path) : nullptr;
      if (entry == nullptr || !std::filesystem::exists(path.parent_path())) continue;
      if (entry->content) {
        put(path, *entry->content, random);
      } else {
        std::filesystem::create_directory(path);
      }
    }
  }

 private:
  using bytes = std::vector<std::byte>;
  struct file_content {
    bytes now;
    bytes synced;
  };
  struct node {
    std::shared_ptr<file_content> content;  // none: a folder
  };

  class open_file final : public output_file {
   public:
    open_file(simulated_files& files, std::shared_ptr<file_content> to)
        : files_(files), to_(std::move(to)) {}
    result<void> write(std::span<const std::byte> data) override {
      if (!files_.alive()) return off();
      to_->now.insert(to_->now.end(), data.begin(), data.end());
      return {};
    }
    result<void> sync() override {
      if (!files_.alive()) return off();
      to_->synced = to_->now;
      return {};
    }

   private:
    simulated_files& files_;
    std::shared_ptr<file_content> to_;
  };

  static tl::unexpected<error> off() { return fail(error_code::io, "the power is off"); }
  bool alive() { return ++operations_ <= budget_; }

  // Unsynced content: the old one, the new one, a beginning of it, or zeros of its length.
  static void put(const std::filesystem::path& path, const file_content& file, seeded& random) {
    auto data = file.synced;
    if (file.now != file.synced) {
      const auto fate = random.below(4);
      if (fate > 0) data = file.now;
      if (fate == 2) data.resize(random.below(data.size() + 1));
      if (fate == 3) std::ranges::fill(data, std::byte{0});
    }
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    out.write(reinterpret_cast<const char*>(data.data()),
              static_cast<std::streamsize>(data.size()));
  }

  std::filesystem::path root_;
  std::map<std::filesystem::path, node> current_;
  std::map<std::filesystem::path, node> durable_;
  std::size_t operations_ = 0;
  std::size_t budget_ = ~std::size_t{0};
};

// The real disk, on which the nth operation fails with `code`; a write leaves half of its bytes.
class failing_files final : public file_ops {
 public:
  failing_files(std::size_t fail_at, error_code code) : fail_at_(fail_at), code_(code) {}

  [[nodiscard]] std::size_t operations() const { return operations_; }

  result<std::unique_ptr<output_file>> create(const std::filesystem::path& file) override {
    if (due()) return broken();
    auto out = system_files().create(file);
    if (!out) return out;
    return std::make_unique<failing_output>(*this, std::move(*out));
  }
  result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (due()) return broken();
    return system_files().rename(from, to);
  }
  result<void> sync_directory(const std::filesystem::path& directory) override {
    if (due()) return broken();
    return system_files().sync_directory(directory);
  }
  result<void> make_directory(const std::filesystem::path& directory) override {
    if (due()) return broken();
    return system_files().make_directory(directory);
  }
  result<void> remove_file(const std::filesystem::path& file) override {
    return system_files().remove_file(file);
  }
  result<void> remove_directory(const std::filesystem::path& directory) override {
    return system_files().remove_directory(directory);
  }
  std::vector<std::string> list(const std::filesystem::path& directory) override {
    return system_files().list(directory);
  }

 private:
  class failing_output final : public output_file {
   public:
    failing_output(failing_files& files, std::unique_ptr<output_file> out)
        : files_(files), out_(std::move(out)) {}
    result<void> write(std::span<const std::byte> data) override {
      if (!files_.due()) return out_->write(data);
      static_cast<void>(out_->write(data.first(data.size() / 2)));
      return files_.broken();
    }
    result<void> sync() override {
      if (files_.due()) return files_.broken();
      return out_->sync();
    }

   private:
    failing_files& files_;
    std::unique_ptr<output_file> out_;
  };

  bool due() { return operations_++ == fail_at_; }
  [[nodiscard]] tl::unexpected<error> broken() const { return fail(code_, "injected"); }

  std::size_t fail_at_;
  error_code code_;
  std::size_t operations_ = 0;
};

}  // namespace ftrt::storage::testing
