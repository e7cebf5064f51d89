#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rig.hpp"
#include "saboteur.hpp"

namespace ftrt::testing {

// Ranks as real processes under a control of a few lines: forked from the test (which plays the
// zygote), joined through the shm communicator, killed and aborted at random moments, recovered by
// the rules of DESIGN.md. Whatever happens, no child outlives the object.
//
//   rank_group group{*program, 2, folder};
//   group.faults(seed, 6, fault::kill_one);
//   protocol::finished report = group.run();   // throws where the run does not end well
class rank_group {
 public:
  enum class fault { abort, kill_one, kill_all, any };

  // `checkpoints`: where complete snapshots become checkpoints.
  rank_group(training_program& program, std::uint32_t world_size,
             std::filesystem::path checkpoints = {});
  ~rank_group();
  rank_group(const rank_group&) = delete;
  rank_group& operator=(const rank_group&) = delete;

  // One fault in each of the first `count` generations, each at a random moment of its first dozen
  // iterations.
  void faults(std::uint64_t seed, int count, fault kind);
  // Faults at exact places: called with each generation.
  void sabotages(std::function<std::optional<sabotage>(std::uint64_t generation)> plan) {
    sabotage_ = std::move(plan);
  }

  // Trains to the end; all ranks must end with one digest.
  protocol::finished run();

  [[nodiscard]] std::uint64_t generations() const { return generation_; }
  [[nodiscard]] int applied_prepared() const { return applied_prepared_; }
  [[nodiscard]] int rollbacks() const { return rollbacks_; }
  [[nodiscard]] int received() const { return received_; }

 private:
  struct member;
  struct report;
  struct command;

  void spawn(std::uint32_t rank);
  [[noreturn]] void be_child(std::uint32_t rank, int commands, int aborts);
  void lose(member& who);
  void assign_roles(std::vector<command>& orders);
  void begin_generation();
  bool join_all();
  bool train_all();
  void revoke_all();
  // The next message of any living rank; empty at the deadline. A rank that has ended is lost.
  std::optional<std::uint32_t> next_message(std::chrono::steady_clock::time_point deadline,
                                            report& into);
  void send(member& to, const command& what);
  void take_snapshot(std::uint32_t rank, const report& from);

  training_program& program_;
  std::uint32_t world_size_;
  std::filesystem::path checkpoints_;
  std::vector<member> members_;
  storage::shared_memory sync_block_;
  std::uint64_t generation_ = 0;
  std::optional<std::uint64_t> saved_iteration_;
  std::map<std::uint64_t, std::map<std::uint32_t, std::vector<std::byte>>> parts_;
  std::function<std::optional<sabotage>(std::uint64_t)> sabotage_;
  int applied_prepared_ = 0;
  int rollbacks_ = 0;
  int received_ = 0;
  protocol::finished last_;
};

}  // namespace ftrt::testing
