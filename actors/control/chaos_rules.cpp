#include <actors/control/chaos_ledger.hpp>
#include <actors/control/chaos_rules.hpp>

namespace ftrt::actors {

std::vector<diagnostic> unwelcome_kinds(const scenario& values, const run_options& options,
                                        const std::filesystem::path& file) {
  std::vector<diagnostic> faults;
  if (options.process_may_be_killed) return faults;
  for (std::size_t i = 0; i < values.chaos.size(); ++i) {
    if (values.chaos[i].kind != chaos_kind::kill_supervisor) continue;
    faults.push_back({file.string(), 0, subject_of_entry(i) + ".kind",
                      "a fault that the program which runs it survives", "\"kill_supervisor\"",
                      "the `ftrt` command resumes the run; a service says "
                      "run_options::process_may_be_killed where somebody does"});
  }
  return faults;
}

std::vector<diagnostic> faults_after_the_end(const scenario& values, std::uint64_t total_iterations,
                                             const std::filesystem::path& file) {
  std::vector<diagnostic> faults;
  for (std::size_t i = 0; i < values.chaos.size(); ++i) {
    const auto& entry = values.chaos[i];
    const auto& when = entry.at_iteration ? entry.at_iteration : entry.every_iterations;
    if (!when || *when <= total_iterations) continue;
    faults.push_back(
        {file.string(), 0,
         subject_of_entry(i) + (entry.at_iteration ? ".at_iteration" : ".every_iterations"),
         "at most " + std::to_string(total_iterations) + ", the run's last iteration",
         std::to_string(*when), "the fault would never happen"});
  }
  return faults;
}

}  // namespace ftrt::actors
