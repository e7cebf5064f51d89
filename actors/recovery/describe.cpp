#include <actors/recovery/engine.hpp>
#include <actors/recovery/machine.hpp>
#include <array>

// States, inputs and actions as one line of text each.
namespace ftrt::recovery {
namespace {

template <class... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

std::string who(rank_id rank, incarnation_id incarnation) {
  return cat(rank, ".", incarnation);
}

template <class Ids>
std::string list(const Ids& ids) {
  std::string out;
  for (const auto& id : ids) out += cat(out.empty() ? "" : ",", id);
  return out;
}

}  // namespace

std::string_view to_string(phase p) {
  constexpr std::array<std::string_view, 8> names{"idle",    "taking over", "gathering", "choosing",
                                                  "joining", "training",    "finishing", "ended"};
  return names.at(static_cast<std::size_t>(p));
}

std::string_view to_string(standing s) {
  constexpr std::array<std::string_view, 12> names{"absent", "starting", "queried",  "answered",
                                                   "ready",  "revoking", "parked",   "joining",
                                                   "joined", "training", "finished", "doomed"};
  return names.at(static_cast<std::size_t>(s));
}

std::string_view name_of(const input& in) {
  constexpr std::array<std::string_view, std::variant_size_v<input>> names{
      "begin",
      "take_over",
      "worker_said_hello",
      "worker_start_failed",
      "worker_lost",
      "worker_parked",
      "worker_joined",
      "worker_join_failed",
      "worker_finished",
      "program_failed",
      "peers_reported_lost",
      "progressed",
      "source_found",
      "final_checkpoint_settled",
      "stop_requested",
      "deadline_passed",
      "states_agreed",
      "state_diverged",
      "worker_not_finite",
      "straggler_found"};
  return names.at(in.index());
}

std::string_view name_of(const action& a) {
  constexpr std::array<std::string_view, std::variant_size_v<action>> names{
      "spawn_worker",
      "kill_worker",
      "revoke_generation",
      "find_source",
      "join_generation",
      "start_training",
      "ask_to_stop",
      "query_workers",
      "record_generation",
      "record_recovery",
      "report_poison",
      "set_deadline",
      "await_final_checkpoint",
      "announce",
      "end_run"};
  return names.at(a.index());
}

std::string describe(const state& s) {
  std::string out = cat(to_string(s.at), " g", s.generation, " b", s.branch, " from ", s.from,
                        " highest ", s.highest, " barren ", s.barren, " fenced ", s.fenced);
  if (s.stop_wanted) out += " stop";
  if (s.distrust) out += " distrust";
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    const member& m = s.ranks[r];
    out += cat(" [", who(rank_id{r}, m.incarnation), " ", to_string(m.stands), " ", m.committed,
               "/", m.prepared, m.decided ? "d" : "", m.has_state ? " state" : "", "]");
  }
  return out;
}

std::string describe(const input& in) {
  const std::string rest = std::visit(
      overloaded{
          [](const begin& e) { return cat(" after g", e.last_generation, " b", e.branch); },
          [](const take_over& e) { return cat(" after g", e.last_generation, " b", e.branch); },
          [](const worker_said_hello& e) {
            return cat(" ", who(e.hello.rank, e.hello.incarnation), " g", e.hello.generation,
                       " phase ", static_cast<int>(e.hello.phase), " at ", e.hello.committed,
                       e.hello.has_state ? " state" : "");
          },
          [](const worker_start_failed& e) {
            return cat(" ", who(e.rank, e.incarnation), ": ", e.text);
          },
          [](const worker_lost& e) {
            return cat(" ", who(e.rank, e.incarnation), " at ", e.committed,
                       e.applying ? " applying" : "", ": ", e.cause);
          },
          [](const worker_parked& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.parked.generation, " at ",
                       e.parked.committed, "/", e.parked.prepared, e.parked.decided ? "d" : "",
                       e.parked.has_state ? " state" : "");
          },
          [](const worker_joined& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.joined.generation, " at ",
                       e.joined.iteration, " ", e.joined.state_digest);
          },
          [](const worker_join_failed& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.failed.generation, ": ",
                       to_string(e.failed.code), ": ", e.failed.text);
          },
          [](const worker_finished& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.finished.generation, " at ",
                       e.finished.iteration, " ", e.finished.weights_digest);
          },
          [](const worker_program_failed& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.failed.generation, ": ",
                       e.failed.text);
          },
          [](const peers_reported_lost& e) { return cat(" g", e.generation, ": ", list(e.lost)); },
          [](const progressed& e) { return cat(" g", e.generation, " at ", e.committed); },
          [](const source_found& e) { return cat(" ", name_of(e.newest)); },
          [](const final_checkpoint_settled& e) {
            return cat(" ", e.iteration, e.committed ? " committed" : " failed");
          },
          [](const stop_requested& e) { return cat(": ", e.reason); },
          [](const deadline_passed& e) { return cat(" ", e.token); },
          [](const states_agreed& e) { return cat(" g", e.generation, " at ", e.iteration); },
          [](const state_diverged& e) {
            return cat(" g", e.generation, " at ", e.iteration, ": ", list(e.odd));
          },
          [](const worker_not_finite& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.found.generation, " at ",
                       e.found.iteration, ": ", list(e.found.ranks));
          },
          [](const straggler_found& e) {
            return cat(" ", who(e.rank, e.incarnation), " g", e.generation,
                       e.all_iterate ? "" : " between iterations",
                       e.has_successor ? "" : " without a successor", ": ", e.figure);
          },
      },
      in);
  return cat(name_of(in), rest);
}

std::string describe(const action& a) {
  const std::string rest = std::visit(
      overloaded{
          [](const spawn_worker& e) {
            return cat(" ", who(e.rank, e.incarnation), " in ", e.delay.count(), " ns");
          },
          [](const kill_worker& e) { return cat(" ", who(e.rank, e.incarnation), ": ", e.cause); },
          [](const revoke_generation& e) { return cat(" g", e.generation, ": ", list(e.ranks)); },
          [](const find_source& e) {
            std::string out;
            if (!e.quarantined.empty()) out += cat(" without ", name_of(e.quarantined.back()));
            if (!e.memory) out += " on disk";
            if (e.not_beyond) out += cat(" up to ", *e.not_beyond);
            return out;
          },
          [](const join_generation& e) {
            std::string out = cat(" g", e.generation);
            for (const protocol::join& j : e.by_rank)
              out += cat(" [", j.rank, " role ", static_cast<int>(j.role), " at ", j.iteration,
                         " from ", j.source, "]");
            return out;
          },
          [](const start_training& e) { return cat(" g", e.generation); },
          [](const ask_to_stop&) { return std::string(); },
          [](const query_workers&) { return std::string(); },
          [](const record_generation& e) {
            return cat(" g", e.generation, " b", e.branch, " from ", e.from,
                       e.rollback_to ? " rollback" : "", ": ", e.reason);
          },
          [](const record_recovery& e) {
            return cat(" g", e.generation, " rank ", e.rank, " from ", e.source, ": ", e.cause);
          },
          [](const report_poison& e) {
            return cat(" rank ", e.rank, " iteration ", e.iteration, e.skipped ? " skipped" : "",
                       ": ", e.cause);
          },
          [](const set_deadline& e) { return cat(" ", e.token, " at ", e.at.count()); },
          [](const await_final_checkpoint& e) { return cat(" ", e.iteration); },
          [](const announce& e) { return cat(" ", ftrt::to_string(e.kind), ": ", e.text); },
          [](const end_run& e) { return cat(" ", static_cast<int>(e.outcome), " ", e.error); },
      },
      a);
  return cat(name_of(a), rest);
}

}  // namespace ftrt::recovery
