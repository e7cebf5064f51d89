#pragma once

#include <actors/host/job_thread.hpp>
#include <actors/host/state_shelf.hpp>
#include <actors/host/worker_entry.hpp>
#include <actors/host/worker_host.hpp>
#include <actors/host/zygote_process.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/run.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <thread>
#include <vector>

namespace ftrt::host {

struct host_config {
  std::filesystem::path worker_program;
  std::string scenario_toml;
  std::uint32_t ranks = 0;
  std::chrono::nanoseconds start_timeout{};
  std::chrono::nanoseconds grace_period{};
  std::uint32_t spares = 0;  // warm workers to hold ready
};

// All processes and shared memories of a run on this host. Outside all actors, so that any of them
// may die: descriptors live here, and a thread of its own watches the zygote channel, the pidfds
// and the workers' standard error. Any thread may call; no call but start() and end() blocks.
class host_table final : public worker_host {
 public:
  // Starts the zygote and waits until it has accepted scenario and data.
  [[nodiscard]] static tl::expected<std::unique_ptr<host_table>, start_error> start(
      host_config config);
  ~host_table() override;
  host_table(const host_table&) = delete;
  host_table& operator=(const host_table&) = delete;

  // From here on events are delivered; before, they wait. nullptr: no more.
  void set_listener(host_listener* listener);

  // As worker_host says.
  [[nodiscard]] const protocol::zygote_ready& program() const override { return program_; }
  void spawn_worker(rank_id rank, incarnation_id incarnation) override;
  bool kill_worker(rank_id rank, incarnation_id incarnation, const std::string& cause) override;
  bool injure(rank_id rank, const std::string& cause) override;
  bool stop_worker(rank_id rank) override;
  void note_struck(rank_id rank, incarnation_id incarnation, bool killed) override;
  bool kill_zygote() override;
  [[nodiscard]] std::shared_ptr<const worker_entry> worker(rank_id rank) const override;
  [[nodiscard]] std::shared_ptr<const worker_entry> worker(
      rank_id rank, incarnation_id incarnation) const override;
  [[nodiscard]] incarnation_id newest_incarnation(rank_id rank) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const worker_entry>> workers() const override;
  [[nodiscard]] std::uint32_t alive() const override;
  [[nodiscard]] std::vector<pid_t> warm_spares() const override;
  [[nodiscard]] pid_t zygote_pid() const override;
  [[nodiscard]] state_shelf& shelf() override { return shelf_; }
  [[nodiscard]] result<unique_fd> open_control_socket(rank_id rank,
                                                      incarnation_id incarnation) override;
  [[nodiscard]] result<void> send_joins(const std::vector<protocol::join>& joins) override;

  // Ends every process: waits until `deadline` for workers to leave by themselves, then kills.
  // Afterwards no process of this run is left, but for keepers of workers' memories (ADR 0010)
  // whose zygote was replaced, as nobody of ours reaps them: they leave by themselves, or when they
  // are continued where somebody stopped them. Idempotent.
  void end(std::chrono::milliseconds patience);

 private:
  struct fork_request {
    rank_id rank;
    incarnation_id incarnation;
    bool spare = false;
  };
  struct notice {  // what the listener is told, outside the lock
    enum class kind { started, start_failed, exited, wrote, zygote_replaced } what;
    rank_id rank;
    incarnation_id incarnation;
    std::string text;
  };
  using entry_ptr = std::shared_ptr<worker_entry>;
  using key = std::pair<rank_id, incarnation_id>;

  // What a watched descriptor is; workers' tags are greater.
  static constexpr std::uint64_t wake_tag = 0;
  static constexpr std::uint64_t zygote_tag = 1;

  explicit host_table(host_config config);

  // On the table's thread.
  void watch();
  void on_zygote_packet();
  void on_zygote_lost(const error& why);
  void replace_silent_zygote();
  void revive_zygote();
  void dispatch(std::uint64_t tag);
  void on_pidfd(const entry_ptr& worker);
  void on_standard_error(const entry_ptr& worker);
  void forward_output(worker_entry& worker, std::string_view text);
  void confirm_late_deaths();
  void deliver_notices();
  void on_lifeline(const entry_ptr& worker);
  void order_due_spare();
  void tell_sources();
  void give_back_outlived();
  void kill_late_spares();
  [[nodiscard]] int patience_ms() const;

  // Under the lock.
  void handle(const protocol::zygote_ready& ready);
  void handle(const protocol::zygote_refused& refused);
  void handle(const protocol::worker_forked& forked, unique_fd pidfd);
  void handle(const protocol::fork_failed& failed);
  void handle(const protocol::worker_exited& exited);
  void fork_now(const fork_request& request);
  void give_up_forking(start_error why, const std::string& text);
  void forget_the_dead(rank_id rank, incarnation_id newest);
  [[nodiscard]] result<entry_ptr> order_fork(const fork_request& request);
  void enlist(const entry_ptr& worker);
  [[nodiscard]] entry_ptr find_serial(std::uint32_t serial) const;
  [[nodiscard]] bool is_waiting(const entry_ptr& spare) const;
  [[nodiscard]] bool hand_out_spare(const fork_request& request);
  void forget_spare(const entry_ptr& spare);
  void postpone_spares();
  [[nodiscard]] std::vector<entry_ptr> likely_sources() const;
  [[nodiscard]] bool must_hear(const worker_entry& spare,
                               const std::vector<entry_ptr>& sources) const;
  [[nodiscard]] std::chrono::nanoseconds next_look_at_spares() const;
  [[nodiscard]] result<entry_ptr> make_entry(const fork_request& request,
                                             std::vector<unique_fd>& for_worker);
  [[nodiscard]] entry_ptr find(rank_id rank, incarnation_id incarnation) const;
  [[nodiscard]] entry_ptr find_living(rank_id rank) const;
  void settle_death(const entry_ptr& worker, std::string cause);
  void outlive(entry_ptr worker);
  void send_kill(const entry_ptr& worker, const std::string& cause);
  void kill_locked(const entry_ptr& worker, const std::string& cause);
  void watch_fd(int fd, std::uint64_t tag);
  [[nodiscard]] result<void> start_zygote();
  void expect_answer();
  [[nodiscard]] bool owes_a_fork() const;
  void replace_zygote(const std::string& what, const error& why);
  void take_back_orders();
  void wake();

  host_config config_;
  protocol::zygote_ready program_;
  zygote_process zygote_;
  state_shelf shelf_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool zygote_ready_ = false;
  // When the zygote must have said something: that it is ready, or what became of an order. The
  // largest time: nothing is owed.
  std::chrono::nanoseconds zygote_due_ = std::chrono::nanoseconds::max();
  std::optional<start_error> start_failure_;
  std::vector<fork_request> waiting_forks_;
  std::map<key, entry_ptr> entries_;
  std::map<rank_id, incarnation_id> newest_;   // that has an entry
  std::map<rank_id, incarnation_id> ordered_;  // by spawn_worker
  std::vector<entry_ptr> spares_;              // without a rank yet, warm or not
  std::map<std::uint32_t, std::weak_ptr<worker_entry>> by_serial_;
  std::uint32_t last_serial_ = 0;
  // A rank was lost or started shortly before: not before these times is the next spare ordered,
  // and one told of other sources.
  std::chrono::nanoseconds spare_due_{};
  std::chrono::nanoseconds sources_due_{};
  // Dead, and nobody needs their memories any more. They are given back when this time has come.
  std::vector<entry_ptr> outlived_;
  std::chrono::nanoseconds outlived_due_ = std::chrono::nanoseconds::max();
  std::uint32_t cold_spares_lost_ = 0;  // in a row
  struct late_death {
    entry_ptr worker;
    std::chrono::nanoseconds at;
  };
  std::vector<late_death> late_deaths_;  // their pidfds have fired; how they died is to be told
  std::deque<notice> notices_;
  host_listener* listener_ = nullptr;
  std::mutex delivery_;  // held while the listener is called, so that it can be taken away safely
  std::uint32_t zygotes_ = 0;        // started so far
  std::uint32_t zygote_losses_ = 0;  // in a row
  std::chrono::nanoseconds last_zygote_loss_{};
  bool program_known_ = false;
  bool ending_ = false;
  std::atomic<bool> stopped_{false};

  unique_fd epoll_;
  unique_fd wake_fd_;
  std::thread thread_;
  job_thread chores_;  // what may take its time; last, so that it ends before all that it uses
};

}  // namespace ftrt::host
