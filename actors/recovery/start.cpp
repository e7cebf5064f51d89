#include <actors/recovery/engine.hpp>
#include <algorithm>
#include <ftrt/error.hpp>
#include <iterator>

// How a run starts: from nothing, resumed, or taken over from a supervisor that died.
namespace ftrt::recovery {

void engine::handle(const begin& e) {
  if (s_.at != phase::idle) return because("the run has already begun");
  s_.generation = e.last_generation;
  s_.resumed = e.last_generation.value() > 0;
  s_.branch = std::max(e.branch, branch_id{1});
  s_.highest = s_.frontier = e.last_committed;
  s_.left_out = e.left_out;
  s_.at = phase::gathering;
  s_.last_cause = s_.resumed ? "resumed" : "start";
  for_each_rank([&](rank_id rank, member& m) {
    if (rank.value() < e.incarnations.size()) m.incarnation = e.incarnations[rank.value()];
    order(rank, std::chrono::nanoseconds{0});
  });
  because(cat(s_.last_cause, ": ", s_.ranks.size(), " ranks ordered"));
}

void engine::handle(const take_over& e) {
  if (s_.at != phase::idle) return because("the run has already begun");
  s_.at = phase::taking_over;
  s_.generation = e.last_generation;
  s_.branch = std::max(e.branch, branch_id{1});
  s_.highest = s_.frontier = e.last_committed;
  s_.branch_since = e.branch_since;
  s_.agreed = e.agreed;
  s_.not_beyond = e.not_beyond;
  s_.distrust = e.not_beyond.has_value();
  s_.left_out = e.left_out;
  go_on_counting(e.counts);
  s_.last_cause = "taken over by a new supervisor";
  for_each_rank([&](rank_id rank, member& m) {
    if (rank.value() < e.incarnations.size()) m.incarnation = e.incarnations[rank.value()];
    if (m.incarnation.value() == 0) return order(rank, std::chrono::nanoseconds{0});
    m.stands = standing::queried;
    m.has_state = true;  // until it says otherwise: should it die, its page counts
    arm_rank(rank, limits_.start_timeout);
  });
  act(query_workers{});
  because(s_.last_cause);
  settle_take_over();
}

// A supervisor that dies is no way around a limit.
void engine::go_on_counting(const failure_counts& before) {
  s_.suspects = before.suspects;
  s_.barren = before.barren;
  s_.not_finite = before.not_finite;
  s_.restarts_total = before.restarts_total;
  s_.restarts = before.restarts;
  s_.abandoned = before.abandoned;
  std::ranges::copy_if(before.unrecovered, std::back_inserter(s_.unrecovered),
                       [&](const loss& each) { return each.rank.value() < s_.ranks.size(); });
  const auto known = std::min(before.ranks.size(), s_.ranks.size());
  for (std::size_t rank = 0; rank < known; ++rank) {
    s_.ranks[rank].attempts = before.ranks[rank].attempts;
    s_.ranks[rank].replaced = before.ranks[rank].replaced;
  }
}

void engine::handle(const worker_said_hello& e) {
  const protocol::hello& said = e.hello;
  member* m = find(said.rank, said.incarnation);
  if (m == nullptr) return;
  if (m->stands == standing::doomed) return because("it is about to die");
  if (m->stands == standing::starting || m->stands == standing::queried) {
    greet(said.rank, said);
  } else {
    greet_again(said.rank, said);
  }
}

void engine::greet(rank_id rank, const protocol::hello& said) {
  if (said.version != protocol::protocol_version)
    return doom(rank, cat("speaks protocol version ", said.version, ", expected ",
                          protocol::protocol_version));
  member& m = at(rank);
  m.wait = {};
  because(cat("rank ", rank, " is here"));
  m.false_starts = 0;
  if (m.stands == standing::starting) {
    m.stands = standing::ready;
    m.has_state = false;
    tell(event::kind::worker_started, rank,
         cat("incarnation ", m.incarnation, ", process ", said.pid));
  } else {
    m.stands = standing::answered;
    m.has_state = said.has_state;
    m.committed = said.committed;
    m.said_phase = said.phase;
    m.said_generation = said.generation;
  }
  if (s_.at == phase::taking_over) return settle_take_over();
  settle();
}

// A hello of a worker that is known: its trainer is new, and what was on its way may be lost.
void engine::greet_again(rank_id rank, const protocol::hello& said) {
  using protocol::worker_phase;
  const member& m = at(rank);
  const bool here = said.generation == s_.generation;
  because(cat("rank ", rank, " is known"));
  if (m.stands == standing::revoking) {
    act(revoke_generation{s_.generation, {rank}});
    because("told to leave again");
  } else if (m.stands == standing::joining && here && said.phase == worker_phase::joined) {
    because("its word that it joined is lost");
    regroup();
  } else if (m.stands == standing::training && here && said.phase == worker_phase::parked) {
    because("it has left the generation");
    regroup();
  } else if (m.stands == standing::training && here && said.phase == worker_phase::joined) {
    act(start_training{s_.generation});
    because("told to train again");
  }
  if (s_.stop_wanted && s_.at == phase::training) act(ask_to_stop{});
}

void engine::handle(const worker_start_failed& e) {
  member* m = find(e.rank, e.incarnation);
  if (m == nullptr) return;
  if (m->stands != standing::starting && m->stands != standing::doomed)
    return because("it has started already");
  ++m->false_starts;
  worker_lost lost;
  lost.rank = e.rank;
  lost.incarnation = e.incarnation;
  lost.cause = cat("could not be started: ", e.text);
  lost.fault_at = now_;
  lose(e.rank, lost);
}

// ---- take-over ---------------------------------------------------------------------------------

void engine::settle_take_over() {
  if (!all([](const member& m) {
        return m.stands != standing::queried && m.stands != standing::doomed;
      }))
    return;
  adoptable() ? adopt() : leave_take_over();
}

// As it is only if all ranks train in one generation, and no newer one was ever recorded.
bool engine::adoptable() const {
  const generation_id g = s_.ranks.front().said_generation;
  if (g < s_.generation || g.value() == 0 || s_.distrust) return false;
  return std::ranges::all_of(s_.ranks, [g](const member& m) {
    return m.stands == standing::answered && m.said_generation == g && m.has_state &&
           (m.said_phase == protocol::worker_phase::training ||
            m.said_phase == protocol::worker_phase::finished);
  });
}

void engine::adopt() {
  s_.generation = s_.ranks.front().said_generation;
  s_.at = phase::training;
  for (const member& m : s_.ranks) s_.highest = std::max(s_.highest, m.committed);
  s_.frontier = s_.from = s_.highest;
  because(cat("all ranks train in generation ", s_.generation, ": adopted as it is"));
  for_each_rank([&](rank_id rank, member& m) {
    m.role = protocol::state_role::keep;
    m.stands = standing::training;
    if (m.finish && m.finish->said.generation == s_.generation) m.stands = standing::finished;
    // It repeats its report after its hello; without one nothing would ever move on.
    else if (m.said_phase == protocol::worker_phase::finished)
      arm_rank(rank, limits_.start_timeout);
  });
  if (s_.stop_wanted) act(ask_to_stop{});
  judge_program();
  if (s_.at == phase::training) compare_finished();
}

void engine::leave_take_over() {
  for (const member& m : s_.ranks)
    if (m.stands == standing::answered) {
      s_.generation = std::max(s_.generation, m.said_generation);
      if (m.has_state && m.said_generation >= s_.branch_since)
        s_.highest = std::max(s_.highest, m.committed);
    }
  s_.from = s_.frontier = std::max(s_.frontier, s_.highest);
  for (loss& each : s_.unrecovered) each.generation = s_.generation;
  because("the ranks do not train in one generation");
  for_each_rank([&](rank_id, member& m) {
    if (m.stands != standing::answered) return;
    m.finish.reset();
    // It may yet take state by a join on its way; only what is of a void branch is never believed.
    m.has_state = !(m.has_state && m.said_generation < s_.branch_since);
    // `joining` stands for any membership here: regroup() revokes it. Also a worker that says it is
    // starting: the old supervisor's join may be on its way to it.
    m.stands = s_.generation.value() > 0 ? standing::joining : standing::ready;
  });
  regroup();
}

}  // namespace ftrt::recovery
