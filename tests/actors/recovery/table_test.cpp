#include <functional>
#include <map>
#include <tests/actors/recovery/stage.hpp>

// Every input in every phase. Two ranks; the input speaks for rank 1's newest worker and the newest
// generation, so it is not fenced for its age.
using namespace ftrt;
using namespace ftrt::recovery;
using ftrt::protocol::worker_phase;

namespace {

const std::vector<phase> every_phase{phase::idle,      phase::taking_over, phase::gathering,
                                     phase::choosing,  phase::joining,     phase::training,
                                     phase::finishing, phase::ended};

// Rank 0 has parked, rank 1's successor has not said hello.
void to_gathering(stage& s) {
  s.start(7);
  s.lose(r1, 7);
  s.park(r0, 7);
}

void to_finishing(stage& s) {
  s.start(7);
  s.each_rank([&](rank_id r) { s.finish(r, 1000); });
}

stage in_phase(phase p) {
  stage s(2);
  switch (p) {
    case phase::idle:
      break;
    case phase::taking_over:
      s.feed(take_over{generation_id{1},
                       branch_id{1},
                       {incarnation_id{1}, incarnation_id{1}},
                       iteration_id{7},
                       generation_id{}});
      s.hello(r0, worker_phase::training, 1, 7);
      break;
    case phase::gathering:
      to_gathering(s);
      break;
    case phase::choosing:
      s.feed(begin{});
      s.all_hello();
      break;
    case phase::joining:
      to_gathering(s);
      s.hello(r1);
      s.join(r0);
      break;
    case phase::training:
      s.start(7);
      s.finish(r0, 1000);
      break;
    case phase::finishing:
      to_finishing(s);
      break;
    case phase::ended:
      to_finishing(s);
      s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
  }
  EXPECT_EQ(s.now().at, p);
  return s;
}

struct named_input {
  std::string name;
  std::function<void(stage&)> feed;
};

const std::vector<named_input> every_input{
    {"begin", [](stage& s) { s.feed(begin{}); }},
    {"take_over", [](stage& s) { s.feed(take_over{}); }},
    {"worker_said_hello", [](stage& s) { s.hello(r1, worker_phase::training, 1, 7); }},
    {"worker_start_failed",
     [](stage& s) {
       s.feed(worker_start_failed{r1, s.newest(r1), "no memory"});
     }},
    {"worker_lost", [](stage& s) { s.lose(r1, 7); }},
    {"worker_parked", [](stage& s) { s.park(r1, 7); }},
    {"worker_joined", [](stage& s) { s.join(r1); }},
    {"worker_join_failed", [](stage& s) { s.fail_to_join(r1, error_code::io); }},
    {"worker_finished", [](stage& s) { s.finish(r1, 1000); }},
    {"worker_program_failed", [](stage& s) { s.fail_program(r1, "threw"); }},
    {"peers_reported_lost",
     [](stage& s) {
       s.feed(peers_reported_lost{s.generation(), {r1}});
     }},
    {"progressed", [](stage& s) { s.commit(8); }},
    {"source_found", [](stage& s) { s.checkpoint(5); }},
    {"final_checkpoint_settled",
     [](stage& s) {
       s.feed(final_checkpoint_settled{iteration_id{1000}, true, ""});
     }},
    {"stop_requested", [](stage& s) { s.feed(stop_requested{"test"}); }},
    {"deadline_passed", [](stage& s) { s.feed(deadline_passed{999}); }},
    {"states_agreed", [](stage& s) { s.agree(7); }},
    {"state_diverged", [](stage& s) { s.diverge(8, {}); }},
    {"worker_not_finite", [](stage& s) { s.not_finite(r1, 8); }},
    {"straggler_found", [](stage& s) { s.slow(r1); }},
};

// Columns as every_phase: the letter of the phase that follows: Idle, Taking over, Gathering,
// Choosing, Joining, tRaining, Finishing, Ended. `.`: nothing changes but the
// count of what was fenced; a lower-case letter: the phase stays, the state changes.
const std::map<std::string, std::string> outcomes{
    {"begin", "G......."},
    {"take_over", "G......."},          // nothing was ever started: as begin
    {"worker_said_hello", ".RJ....."},  // the last one that was waited for
    {"worker_start_failed", "..g....."},
    {"worker_lost", ".GgGGGf."},    // finishing: its snapshot outlives it
    {"worker_parked", "........"},  // rank 1 was not told to, here
    {"worker_joined", "....R..."},
    {"worker_join_failed", "....G..."},
    {"worker_finished", ".t...F.."},
    {"worker_program_failed", ".t..jr.."},  // waits for its peers' word
    {"peers_reported_lost", "....jr.."},    // killed; its loss follows
    {"progressed", ".....r.."},
    {"source_found", "...J...."},
    {"final_checkpoint_settled", "......E."},
    {"stop_requested", "itgcjrf."},
    {"deadline_passed", "........"},  // a token that nobody waits for
    {"states_agreed", ".t...r.."},
    {"state_diverged", ".t...G.."},
    {"worker_not_finite", ".....r.."},  // waits for its peers' word
    {"straggler_found", "........"},    // its peer has finished, here: see straggler_test.cpp
};

char letter(phase p) {
  return "ITGCJRFE"[static_cast<std::size_t>(p)];
}

char outcome(const named_input& in, phase p) {
  stage s = in_phase(p);
  const state before = s.now();
  in.feed(s);
  EXPECT_FALSE(s.reason().empty());
  state after = s.now();
  after.fenced = before.fenced;
  if (before.ranks.empty() && after.at == phase::idle) after.ranks.clear();
  if (after == before) return '.';
  const char c = letter(after.at);
  return after.at == before.at ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

TEST(recovery_table, every_input_in_every_phase_does_what_the_table_says) {
  static_assert(std::variant_size_v<input> == 20, "a new input wants a row");
  ASSERT_EQ(every_input.size(), std::variant_size_v<input>);
  for (const named_input& in : every_input) {
    std::string row;
    for (const phase p : every_phase) row += outcome(in, p);
    const auto expected = outcomes.find(in.name);
    EXPECT_EQ(row, expected == outcomes.end() ? "" : expected->second)
        << in.name << " in "
        << "idle, taking over, gathering, choosing, joining, training (R), "
        << "finishing, ended";
  }
}

TEST(recovery_table, an_ended_run_asks_for_nothing) {
  for (const named_input& in : every_input) {
    stage s = in_phase(phase::ended);
    in.feed(s);
    EXPECT_TRUE(s.all<set_deadline>().empty() && s.all<spawn_worker>().empty() &&
                s.all<end_run>().empty())
        << in.name;
  }
}

TEST(recovery_table, states_inputs_and_actions_can_be_printed) {
  stage s(2);
  s.start(7);
  s.lose(r1, 7);
  EXPECT_EQ(describe(s.now()),
            "gathering g1 b1 from 0 highest 7 barren 1 fenced 0 [0.1 revoking 0/0 state] "
            "[1.2 starting 0/0]");
  EXPECT_EQ(describe(input{progressed{generation_id{1}, iteration_id{9}}}), "progressed g1 at 9");
  EXPECT_EQ(describe(action{spawn_worker{r1, incarnation_id{2}, {}}}), "spawn_worker 1.2 in 0 ns");
}

TEST(recovery_table, the_same_inputs_give_the_same_states_and_actions) {
  const auto play = [](stage& s) {
    s.start(7);
    s.lose(r1, 7);
    s.lose(r0, 7);
    s.lose(r1, 7);
  };
  stage a(2), b(2);
  play(a);
  play(b);
  EXPECT_EQ(a.now(), b.now());
  EXPECT_EQ(a.one<spawn_worker>()->delay, b.one<spawn_worker>()->delay);
}
