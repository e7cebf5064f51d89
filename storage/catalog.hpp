#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/catalog.hpp>
#include <ftrt/error.hpp>
#include <ftrt/event.hpp>
#include <ftrt/types.hpp>
#include <memory>
#include <optional>
#include <span>
#include <storage/checkpoint.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

enum class checkpoint_state : std::uint8_t { committed = 0, verified, quarantined };

struct catalog_checkpoint {
  checkpoint_manifest manifest;
  checkpoint_state state = checkpoint_state::committed;
  std::filesystem::path directory;  // absolute
};

// A checkpoint that cannot be loaded, and what is wrong with it.
struct lost_checkpoint {
  iteration_id iteration;
  branch_id branch;
  std::filesystem::path directory;  // absolute
  std::string why;
};

// The index of one run: `catalog.sqlite` in its directory. docs/catalog.md documents the tables.
// It is an index, not the truth: open() brings it in line with the manifests on disk.
//
// WAL on local disks, rollback journal elsewhere; foreign keys on; migrations are one transaction
// with a backup beside; a newer schema is refused (unsupported). Every method is one transaction
// and blocks for the disk: storage thread only. Not thread-safe. Errors of SQLite become io,
// no_space, busy or corrupt.
class catalog {
 public:
  // Creates or opens, migrates and reconciles: committed checkpoints of this run that have no row
  // (a crash came between) are added, rows whose folder or manifest is gone are removed, unless
  // nothing would be left to be loaded then: those stay, to tell of what there was. A damaged
  // database, or a missing one beside checkpoints, is moved aside and rebuilt from the manifests
  // (C13, C45). `notes` tells what was done, for events; nothing is told twice in it.
  [[nodiscard]] static result<catalog> open(const std::filesystem::path& run_directory,
                                            const std::string& run_id,
                                            std::vector<std::string>& notes);
  [[nodiscard]] static result<catalog> open_read_only(const std::filesystem::path& run_directory);

  catalog(catalog&&) noexcept;
  catalog& operator=(catalog&&) noexcept;
  ~catalog();

  // Closes what a killed process left open of a run that is resumed: its incarnations.
  [[nodiscard]] result<void> begin_run(const std::string& run_id, const std::string& name,
                                       std::int64_t now_ms);
  // The incarnations that are still there end with it.
  [[nodiscard]] result<void> end_run(const std::string& run_id, const std::string& status,
                                     std::uint64_t iterations, const std::string& summary_json,
                                     std::int64_t now_ms);

  // Generations and incarnations as they come and go.
  [[nodiscard]] result<void> begin_generation(generation_id generation, branch_id branch,
                                              iteration_id from, const std::string& reason,
                                              std::int64_t now_ms);
  [[nodiscard]] result<void> begin_incarnation(rank_id rank, incarnation_id incarnation,
                                               std::int32_t pid, std::int64_t now_ms);
  [[nodiscard]] result<void> end_incarnation(rank_id rank, incarnation_id incarnation,
                                             const std::string& cause, std::int64_t now_ms);
  // The largest generation on record; 0: none.
  [[nodiscard]] result<generation_id> last_generation();
  // The newest iteration known to be committed in the current branch: of its ledger and its
  // checkpoints. A process that was killed may have gone further.
  [[nodiscard]] result<iteration_id> last_committed();
  // The newest incarnation on record of each rank 0 .. world_size - 1; 0: none.
  [[nodiscard]] result<std::vector<incarnation_id>> newest_incarnations(std::uint32_t world_size);
  // The branch that history is on, and a new one that leaves it at `from` (a rollback): voids the
  // ledger past that point and every checkpoint of the old branch past it.
  [[nodiscard]] result<branch_id> current_branch();
  [[nodiscard]] result<branch_id> begin_branch(iteration_id from, generation_id generation,
                                               std::int64_t now_ms);

  // Makes a committed checkpoint visible. Refused (stale_generation) where its branch was left
  // before its iteration.
  [[nodiscard]] result<void> add_checkpoint(const checkpoint_manifest& manifest,
                                            const std::filesystem::path& directory,
                                            checkpoint_state state);
  [[nodiscard]] result<void> set_state(iteration_id iteration, branch_id branch,
                                       checkpoint_state state, const std::string& why);
  // In the lineage of the current branch, newest first, quarantined ones left out.
  [[nodiscard]] result<std::vector<catalog_checkpoint>> usable_checkpoints();
  // Where the lineage has checkpoints on record and none of them can be loaded: all of them, newest
  // first. Empty: one is good, or there never was any. Reads them until one is good.
  [[nodiscard]] result<std::vector<lost_checkpoint>> all_lost();
  // Which checkpoints retention may remove: beyond the newest `keep_last` of the current lineage,
  // never the newest verified one (C11). keep_last >= 1.
  [[nodiscard]] result<std::vector<catalog_checkpoint>> prunable(std::uint64_t keep_last);
  [[nodiscard]] result<void> remove_row(iteration_id iteration, branch_id branch);

  // Iterations first..last were committed in this generation, covering these global samples.
  [[nodiscard]] result<void> add_ledger(branch_id branch, generation_id generation,
                                        iteration_id first, iteration_id last);

  [[nodiscard]] result<void> add_events(std::span<const event> events);
  // Adds those of a run's event log that are not here: a process that was killed had them in its
  // queue, or the catalog was made anew. Returns how many those were.
  [[nodiscard]] result<std::size_t> take_in(std::span<const event> logged);

  [[nodiscard]] result<std::vector<run_row>> runs();
  [[nodiscard]] result<std::vector<checkpoint_row>> checkpoints();
  [[nodiscard]] result<std::vector<event>> events();
  // Whose window of data the run leaves out (event batch_skipped); ascending.
  [[nodiscard]] result<std::vector<iteration_id>> skipped_iterations();

 private:
  struct impl;
  explicit catalog(std::unique_ptr<impl> opened);
  std::unique_ptr<impl> impl_;
};

}  // namespace ftrt::storage
