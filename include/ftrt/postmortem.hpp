#pragma once

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ftrt {

// What each rank of a generation was doing when the generation ended by a loss, or the run failed:
// read from the ranks' own progress memories at that moment, before anybody reacted to it, and kept
// as a file in the run's folder (docs/forensics.md).
//
//   const auto row = ftrt::find_run("runs", "");
//   const auto report = ftrt::read_postmortem(row->directory);
//   if (report) std::cout << ftrt::headline(*report) << '\n';
//
// A rank that died or ran wild wrote what is told of it: a figure may be nonsense, never harmful.

// One line of a rank's diary.
struct postmortem_record {
  std::string kind;                 // "iteration", "evaluation", "digest"
  std::uint64_t iteration = 0;      //
  std::uint64_t collectives = 0;    // iteration: done by then in its generation
  std::uint64_t reduced_bytes = 0;  // iteration: by its collectives
  double compute_ms = 0;            // before the collectives
  double reduce_ms = 0;             // in them, waiting included
  double step_ms = 0;               // all of it
  double ago_ms = 0;                // how long before the report
};

struct postmortem_rank {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  std::int32_t pid = 0;
  bool alive = false;                      // when the report was made
  bool lost = false;                       // it is one of those that ended the generation
  std::string cause;                       // of its loss
  bool member = false;                     // it had entered the generation; what follows is of it
  std::string phase;                       // "compute", "all_reduce", ... (docs/forensics.md)
  std::uint64_t iteration = 0;             // at work
  std::uint64_t committed = 0;             //
  std::uint64_t micro_batch = 0;           //
  std::uint64_t begun = 0;                 // the last collective that it contributed to
  std::uint64_t completed = 0;             // collectives that it has left
  std::uint64_t reduced_bytes = 0;         // of the last one that it contributed to
  double quiet_ms = 0;                     // since its last progress
  std::vector<postmortem_record> records;  // its last ones, oldest first
};

struct postmortem {
  std::string run_id;
  std::uint64_t generation = 0;
  std::int64_t taken_ms = 0;  // Unix time
  std::string reason;         // why the generation ended, as control saw it
  std::vector<postmortem_rank> ranks;

  // In the order in which they were found lost.
  std::vector<std::uint32_t> culprits;
  // The collective that some ranks waited in while others had not come; 0: there was none.
  std::uint64_t collective = 0;
  std::vector<std::uint32_t> waiting;
  std::vector<std::uint32_t> missing;
};

// Generations of a run that have a report, oldest first. The newest few dozen are kept.
[[nodiscard]] std::vector<std::uint64_t> list_postmortems(
    const std::filesystem::path& run_directory);

// Empty: the newest. not_found: there is no report (of that generation); corrupt: the file is not
// what a run writes. Any thread; safe beside a living run.
[[nodiscard]] result<postmortem> read_postmortem(const std::filesystem::path& run_directory,
                                                 std::optional<std::uint64_t> generation = {});

// One line: who, why and where. "rank 1 lost: killed by signal 9 (SIGKILL), in compute of iteration
// 77; it did not arrive in collective 231, in which rank 0 waited"
[[nodiscard]] std::string headline(const postmortem& report);
[[nodiscard]] std::string to_json(const postmortem& report);

}  // namespace ftrt
