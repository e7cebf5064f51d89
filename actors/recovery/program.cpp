#include <actors/recovery/engine.hpp>
#include <algorithm>

// The user's model or data threw: the same on every rank is a program error and ends the run,
// anything else is treated as the failure of a rank.
namespace ftrt::recovery {
namespace {

bool failed(const member& m) {
  return m.program_error.has_value();
}

}  // namespace

void engine::handle(const worker_program_failed& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr) return;
  if (s_.at != phase::taking_over && !of_this_generation(e.failed.generation)) return;
  const bool listens = m->stands == standing::joining || m->stands == standing::joined ||
                       m->stands == standing::training || m->stands == standing::queried ||
                       m->stands == standing::answered;
  if (!listens) return because("it is out of its generation already");
  m->program_error = e.failed.text;
  s_.last_cause =
      cat("rank ", e.rank, " failed in iteration ", e.failed.iteration, ": ", e.failed.text);
  because(s_.last_cause);
  if (s_.at != phase::taking_over) judge_program();
}

void engine::judge_program() {
  if (std::ranges::none_of(s_.ranks, failed)) return;
  const auto same = [&](const member& m) {
    return m.program_error == s_.ranks.front().program_error;
  };
  if (!all(failed)) {
    if (s_.verdict_wait.token == 0) arm(s_.verdict_wait, limits_.verdict_timeout);
    return because("will its peers say the same?");
  }
  if (!std::ranges::all_of(s_.ranks, same)) return convict();
  end(run_outcome::failed, cat(to_string(error_code::program_error),
                               " on every rank: ", *s_.ranks.front().program_error));
}

// Its peers do not say the same: the rank is lost. regroup() kills it.
void engine::convict() {
  s_.verdict_wait = {};
  generation_failed(s_.last_cause);
  if (s_.at != phase::ended) regroup();
}

}  // namespace ftrt::recovery
