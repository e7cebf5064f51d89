#include <actors/recovery/engine.hpp>
#include <algorithm>

// A rank that works, and slowly. Nothing is lost by leaving it where it is, so that it is replaced
// only while there is nothing else to do, and its loss is none of the failures that may come in a
// row. Some is risked: until the new process has the state there is one replica less.
namespace ftrt::recovery {
namespace {

constexpr std::string_view sentence = "straggler: ";

bool trains(const member& m) {
  return m.stands == standing::training;
}

}  // namespace

void engine::handle(const straggler_found& e) {
  if (find(e.rank, e.incarnation) == nullptr || !of_this_generation(e.generation)) return;
  if (const auto why = why_it_stays(e)) return because(cat("rank ", e.rank, " stays: ", *why));
  if (!budget_for_stragglers()) return keep_straggler(e);
  tell(event::kind::straggler, e.rank, "a new process takes its place");
  doom(e.rank, cat(sentence, e.figure));
}

bool engine::is_straggler_doomed(const member& m) {
  return m.stands == standing::doomed && m.kill_cause.starts_with(sentence);
}

std::optional<std::string_view> engine::why_it_stays(const straggler_found& e) {
  if (!limits_.replace_stragglers) return "stragglers are only reported";
  if (s_.ranks.size() < 2) return "it has no others to be slower than";
  if (s_.at != phase::training || !all(trains)) return "not all ranks train";
  if (s_.stop_wanted) return "the run is to stop";
  if (s_.verdict_wait.token != 0) return "the ranks are to leave this iteration";
  if (!s_.unrecovered.empty() || s_.barren > 0) return "the last failure is not made good yet";
  if (!e.all_iterate) return "not all ranks are within an iteration";
  if (!e.has_successor) return "no process is ready to take its place";
  return std::nullopt;
}

// Half of the restarts are for those whom nobody asked.
bool engine::budget_for_stragglers() {
  forget_old_restarts();
  return 2 * (s_.restarts.size() + 1) <= limits_.max_restarts;
}

void engine::keep_straggler(const straggler_found& e) {
  because(cat("rank ", e.rank, " stays: half of the restarts are spent"));
  if (std::exchange(at(e.rank).stays_slow, true)) return;
  tell(event::kind::straggler, e.rank,
       cat("it stays for now: with ", s_.restarts.size(),
           " restarts within the window another one would be more than half of "
           "supervision.max_restarts = ",
           limits_.max_restarts));
}

}  // namespace ftrt::recovery
