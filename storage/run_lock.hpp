#pragma once

#include <filesystem>
#include <ftrt/error.hpp>
#include <optional>
#include <schemas/unique_fd.hpp>
#include <string>

namespace ftrt::storage {

// The lock of a run directory: one process at a time (C15). An OFD write lock on the file `lock`,
// which the kernel drops when the holder dies, on every host that shares the folder. The lock
// belongs to the open file: a child that is forked without exec shares it. Move-only, any one
// thread.
//
// The file says who holds it, for people, and carries a random token of this very hold: a pid may
// be another process by now, or be one of another host; a token is never anybody else's.
class run_lock {
 public:
  // busy: another living process holds it, named in the message. Does not wait.
  [[nodiscard]] static result<run_lock> take(const std::filesystem::path& directory);

  [[nodiscard]] const std::string& token() const { return token_; }
  // The run is over, though its holder may keep the folder for a while: nobody is there any more
  // who could be asked to stop it. Best effort.
  void say_over() const;
  void release() { fd_.reset(); }

 private:
  unique_fd fd_;
  std::string token_;

  friend class run_directory;
  run_lock() = default;
};

// "pid 12 on host": this process, for people who may read it elsewhere.
[[nodiscard]] std::string name_of_this_process();

// What the lock file says of its holder.
struct run_holder {
  std::string text;   // "pid 12 on host since 2026-11-30 12:00:00 UTC", printable
  std::string token;  // empty: it has not said it yet, or its run is over
  bool over = false;
};

// Who holds a run directory, without taking it; empty: nobody.
[[nodiscard]] std::optional<run_holder> find_holder(const std::filesystem::path& directory);

}  // namespace ftrt::storage
