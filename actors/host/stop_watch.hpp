#pragma once

#include <filesystem>
#include <functional>
#include <schemas/unique_fd.hpp>
#include <string>
#include <thread>

namespace ftrt::host {

// Hears requests to stop that others leave in the run's folder (storage/stop_request), on a thread
// of its own, since the folder may be on a disk that hangs. The kernel tells of a new file at once;
// where it does not (a network file system, no inotify left), the watch looks twice a second.
//
// Owned by the run, from before its actors live until after they have ended. `on_request` is called
// on the watch's thread, with the reason; what waited before the watch began counts as well.
class stop_watch {
 public:
  stop_watch(std::filesystem::path directory, std::string hold_token,
             std::function<void(const std::string& reason)> on_request);
  ~stop_watch();
  stop_watch(const stop_watch&) = delete;
  stop_watch& operator=(const stop_watch&) = delete;

 private:
  void watch();
  void wait_for_news() const;

  std::filesystem::path directory_;
  std::string hold_token_;
  std::function<void(const std::string&)> on_request_;
  unique_fd news_;    // inotify
  unique_fd end_fd_;  // eventfd: the watch is over
  std::thread thread_;
};

}  // namespace ftrt::host
