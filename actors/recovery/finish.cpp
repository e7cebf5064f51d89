#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <bit>
#include <ftrt/error.hpp>

// How a run ends.
namespace ftrt::recovery {

bool operator==(const finish_report& a, const finish_report& b) {
  const auto bits = [](double d) { return std::bit_cast<std::uint64_t>(d); };
  return a.said.generation == b.said.generation && a.said.iteration == b.said.iteration &&
         a.said.optimizer_steps == b.said.optimizer_steps && a.said.stopped == b.said.stopped &&
         a.said.weights_digest == b.said.weights_digest &&
         bits(a.said.train_loss) == bits(b.said.train_loss) &&
         bits(a.said.test_accuracy) == bits(b.said.test_accuracy);
}

void engine::handle(const worker_finished& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr) return;
  if (m->stands == standing::answered || m->stands == standing::queried) {  // kept for adopt()
    m->finish = finish_report{e.finished};
    return because("noted for the take-over");
  }
  if (!of_this_generation(e.finished.generation)) return;
  if (m->stands != standing::training) return because("it does not train");
  m->stands = standing::finished;
  m->wait = {};
  m->finish = finish_report{e.finished};
  m->committed = e.finished.iteration;
  because(cat("rank ", e.rank, " finished at iteration ", e.finished.iteration));
  compare_finished();
}

// All ranks must end with the same weights at the same iteration; else somebody's are damaged.
void engine::compare_finished() {
  if (!all([](const member& m) { return m.stands == standing::finished; })) return;
  std::vector<std::string> votes;
  for (const member& m : s_.ranks) {
    const protocol::finished& f = m.finish->said;
    votes.push_back(cat(f.iteration, " ", f.stopped, " ", f.weights_digest));
  }
  const auto odd = minority(votes);
  if (!odd || !odd->empty())
    return disbelieve(odd.value_or(std::vector<rank_id>{}),
                      cat("state diverged before the finish at iteration ",
                          s_.ranks.front().finish->said.iteration));
  const protocol::finished& last = s_.ranks.front().finish->said;
  const bool complete = last.stopped || limits_.total_iterations == 0 ||
                        last.iteration.value() == limits_.total_iterations;
  if (!complete)
    return end(run_outcome::failed,
               cat(to_string(error_code::internal), ": the ranks finished at iteration ",
                   last.iteration, ", expected ", limits_.total_iterations));
  s_.stop_wanted = s_.stop_wanted || last.stopped;
  note_progress(last.iteration, now_);
  record_recoveries(now_);
  s_.at = phase::finishing;
  s_.verdict_wait = {};
  s_.asks = 1;
  act(await_final_checkpoint{last.iteration});
  arm(s_.group_wait, limits_.checkpoint_timeout);
  because("all ranks finished: the final checkpoint is awaited");
}

void engine::handle(const final_checkpoint_settled& e) {
  if (s_.at != phase::finishing || e.iteration != s_.highest)
    return because("that checkpoint is not awaited");
  if (!e.committed && s_.final_pause) return because("it is to be tried again already");
  if (!e.committed) return retry_or_fail_final(e.text);
  std::optional<protocol::finished> last;
  for (const member& m : s_.ranks)
    if (m.finish && !last) last = m.finish->said;
  because(cat("the final checkpoint of iteration ", e.iteration, " is committed"));
  end(last && last->stopped ? run_outcome::stopped : run_outcome::completed, "");
  std::get<end_run>(actions_.back()).last = last;
}

// C17: without its final checkpoint a run has failed. The ranks may still stand, so let them join
// once more, finish again and snapshot again: at once, then after longer and longer pauses, in
// which somebody may make room on a full disk.
void engine::retry_or_fail_final(const std::string& text) {
  if (s_.final_retries == 0) s_.final_failed_at = now_;
  const auto left = s_.final_failed_at + limits_.stop_timeout - now_;
  if (left.count() <= 0)
    return end(run_outcome::failed,
               cat("the final checkpoint of iteration ", s_.highest, " was not committed: ", text));
  ++s_.final_retries;
  s_.final_failure = text;
  s_.last_cause = cat("the final checkpoint was not committed: ", text);
  tell(event::kind::checkpoint_failed, std::nullopt,
       cat(s_.last_cause, "; it is tried again for ",
           std::chrono::ceil<std::chrono::seconds>(left).count(), " s"));
  because(s_.last_cause);
  if (s_.final_retries == 1) return regroup();
  s_.final_pause = true;
  arm(s_.group_wait, std::min(left, pause_after(s_.final_retries - 1)));
}

void engine::handle(const stop_requested& e) {
  if (s_.stop_wait.token != 0) return because("the run stops already");
  s_.stop_wanted = true;
  arm(s_.stop_wait, limits_.stop_timeout);
  tell(event::kind::stop_requested, std::nullopt, e.reason);
  because(cat("stop requested: ", e.reason));
  if (s_.at == phase::training) act(ask_to_stop{});
}

void engine::end(run_outcome outcome, std::string error) {
  s_.at = phase::ended;
  s_.group_wait = s_.verdict_wait = s_.stop_wait = {};
  for (member& m : s_.ranks) m.wait = {};
  because(error.empty() ? "the run ends" : error);
  act(end_run{outcome, std::move(error), std::nullopt});
}

}  // namespace ftrt::recovery
