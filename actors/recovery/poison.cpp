#include <actors/recovery/engine.hpp>
#include <algorithm>

// A window of data that kills the rank that computes it, whoever that is: nothing is gained by
// bringing it back once more.
namespace ftrt::recovery {
namespace {

// Windows in a row that may be left out: more is no bad batch, but a bad program.
constexpr std::uint64_t most_in_a_row = 3;

// What a rank died of, without the figures that differ each time and without who noticed. Empty:
// unknown, as the SIGKILL that was to make sure of its death came before its own end.
std::string kind_of(const member& m, std::string_view cause) {
  constexpr std::string_view hang = "made no progress";
  constexpr std::string_view noticed = "closed its control socket: ";
  if (m.program_error) return *m.program_error;
  if (cause.starts_with(hang)) return std::string{hang};
  const bool by_its_socket = cause.starts_with(noticed);
  if (by_its_socket) cause.remove_prefix(noticed.size());
  const bool was_confirmed = by_its_socket || !m.kill_cause.empty();
  return was_confirmed && cause.ends_with("(SIGKILL)") ? std::string{} : std::string{cause};
}

bool may_be_the_same(const std::string& a, const std::string& b) {
  return a == b || a.empty() || b.empty();
}

}  // namespace

// A death counts where it is certain to be of this history, in a window that all still compute, and
// neither on purpose nor what the machine had in store for the rank for another reason.
bool engine::may_blame_window(const member& m, const worker_lost& e) const {
  if (limits_.poison_limit == 0 || !e.in_window || e.injected || !m.has_state) return false;
  if (is_sentenced(m) && !m.program_error) return false;
  return e.committed >= s_.from && !std::ranges::binary_search(s_.left_out, e.committed.next());
}

void engine::suspect_window(rank_id rank, const worker_lost& e, const std::string& cause) {
  const suspect& culprit = count_death(rank, e, kind_of(at(rank), cause));
  if (culprit.times < limits_.poison_limit) return;
  // By now the survivors have said where the run is: a page that claims more is damaged. Only in a
  // take-over they have not yet, and what is on record may be behind: then the next death decides.
  if (culprit.iteration.value() > s_.frontier.value() + 2)
    return because("its page claims an iteration where the run is not");
  condemn_window(suspect{culprit}, e, cause);
}

// A death in another iteration, or of another cause, begins the count anew. One that the supervisor
// before this one has counted, and whose successor it did not come to order, is told of again.
const suspect& engine::count_death(rank_id rank, const worker_lost& e, const std::string& kind) {
  const iteration_id iteration = e.committed.next();
  auto found = std::ranges::find(s_.suspects, rank, &suspect::rank);
  if (found == s_.suspects.end()) found = s_.suspects.insert(found, suspect{rank, {}, {}, 0, {}});
  if (found->iteration != iteration || !may_be_the_same(found->cause, kind))
    *found = {rank, iteration, {}, 0, {}};
  if (found->cause.empty()) found->cause = kind;
  if (found->last != e.incarnation) ++found->times;
  found->last = e.incarnation;
  return *found;
}

// Does it stop the run, or is the window left out from now on?
void engine::condemn_window(const suspect& culprit, const worker_lost& e,
                            const std::string& cause) {
  const std::string text =
      cat("rank ", culprit.rank, " was lost ", culprit.times, " times in a row in iteration ",
          culprit.iteration, ", each time: ", cause);
  const bool skip = limits_.skip_poisoned && !too_many_left_out(culprit.iteration);
  act(report_poison{culprit.rank, culprit.iteration, culprit.times, cause, e.stderr_tail,
                    e.micro_batch, skip});
  act(announce{skip ? event::kind::batch_skipped : event::kind::batch_poisoned, s_.generation,
               culprit.iteration, culprit.rank, text});
  because(text);
  if (skip) return leave_out(culprit.iteration);
  std::string error = cat("poisoned batch: ", text,
                          "; what it takes to reproduce it is under poisoned/ in the run's folder");
  if (limits_.skip_poisoned) error += cat("; ", most_in_a_row, " before it were left out already");
  if (!e.stderr_tail.empty()) error += cat("; its standard error ends: ", e.stderr_tail);
  end(run_outcome::failed, std::move(error));
}

// What failed so far is explained: what comes now has all its chances.
void engine::leave_out(iteration_id iteration) {
  std::erase_if(s_.suspects, [&](const suspect& each) { return each.iteration == iteration; });
  s_.left_out.insert(std::ranges::upper_bound(s_.left_out, iteration), iteration);
  s_.barren = 0;
  for (member& m : s_.ranks) m.attempts = m.join_failures = 0;
}

bool engine::too_many_left_out(iteration_id iteration) const {
  if (s_.left_out.size() >= protocol::max_left_out) return true;
  std::uint64_t in_a_row = 0;
  while (in_a_row < most_in_a_row && iteration.value() > in_a_row + 1 &&
         std::ranges::binary_search(s_.left_out, iteration_id{iteration.value() - in_a_row - 1}))
    ++in_a_row;
  return in_a_row == most_in_a_row;
}

}  // namespace ftrt::recovery
