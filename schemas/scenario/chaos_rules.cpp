#include <schemas/scenario/rules.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <schemas/scenario/chaos_view.hpp>
#include <schemas/scenario/nearest.hpp>
#include <schemas/scenario/show.hpp>
#include <schemas/scenario/spell.hpp>
#include <set>

namespace ftrt::grammar {
namespace {

constexpr std::string_view trainer_prefix = "trainer:";
constexpr std::array<std::string_view, 4> plain_actors{"checkpoint", "metrics", "run_supervisor",
                                                       "host_supervisor"};
constexpr std::array<std::string_view, 4> whens{"at_iteration", "every_iterations", "every",
                                                "mtbf"};

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : " and ") + std::string{name};
  return text;
}

// The first of its kind may be meant: a run starts, joins and stops at least once.
bool needs_no_when(chaos_phase in) {
  return in == chaos_phase::start || in == chaos_phase::join || in == chaos_phase::stop;
}

void one_when(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    std::vector<std::string_view> found;
    std::ranges::copy_if(whens, std::back_inserter(found),
                         [&](std::string_view key) { return v.given(key); });
    const auto sound = [&](std::string_view key) { return v.sound(key); };
    if (found.size() == 1 || !std::ranges::all_of(whens, sound) || !v.sound("in")) return;
    if (found.empty() && needs_no_when(v.entry.in)) return;
    v.refuse(found.empty() ? "at_iteration" : found.back(),
             {"exactly one of at_iteration, every_iterations, every, mtbf",
              found.empty() ? "none of them" : joined(found),
              {}});
  });
}

void has_a_kind(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (v.given("kind") || !v.sound("kind")) return;
    v.refuse("kind", {expected(*find_key(chaos_table, "kind")), "none", {}});
  });
}

void worker_faults_name_ranks(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || !v.sound("rank") || !v.sound("ranks")) return;
    const bool worker = strikes_workers(v.entry.kind);
    const bool one = v.given("rank");
    const bool many = v.given("ranks");
    if (worker && one && many) {
      return v.refuse("ranks", {"either `rank` or `ranks`", "both", {}});
    }
    if (worker && !one && !many) {
      const std::string kind{name_of(v.entry.kind)};
      return v.refuse("rank", {"the rank to " + (goes_wrong(v.entry.kind) ? "hurt" : kind),
                               "neither `rank` nor `ranks`",
                               "write rank = 1, ranks = [0, 1] or ranks = \"all\""});
    }
    if (!worker && (one || many)) {
      v.refuse(one ? "rank" : "ranks", {"no rank with kind = " + quote(name_of(v.entry.kind)),
                                        "one", "the worker dies with kind = \"kill\""});
    }
  });
}

void only_actors_have_a_name(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || v.entry.kind == chaos_kind::kill_actor || !v.given("actor")) return;
    v.refuse("actor", {"no actor with kind = " + quote(name_of(v.entry.kind)), show(v.entry.actor),
                       "actors die with kind = \"kill_actor\""});
  });
}

// Else a fault by the clock would be a function of neither data nor seed.
void poison_is_in_one_batch(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || v.entry.kind != chaos_kind::poison) return;
    for (const auto key : whens) {
      if (key == "at_iteration" || !v.given(key) || !v.sound(key)) continue;
      v.refuse(key, {"at_iteration with kind = \"poison\"", "another when",
                     "a poisoned batch kills each time that it is computed"});
    }
  });
}

std::string world_text(std::uint32_t ranks) {
  return "0 to " + std::to_string(ranks - 1) + " (cluster.ranks = " + std::to_string(ranks) + ")";
}

void ranks_are_in_the_world(draft& of) {
  if (!of.sound("cluster.ranks")) return;
  const auto world = of.values.cluster.ranks;
  for_each_entry(of, [world](const chaos_view& v) {
    const auto* key = v.given("ranks") ? "ranks" : "rank";
    if (!v.given(key) || !v.sound(key)) return;
    std::set<std::uint32_t> seen;
    for (const auto rank : v.entry.ranks) {
      if (rank >= world) {
        return v.refuse(key, {"a rank from " + world_text(world), std::to_string(rank), {}});
      }
      if (!seen.insert(rank).second) {
        return v.refuse(key, {"each rank once", std::to_string(rank) + " twice", {}});
      }
    }
  });
}

// A complaint about "trainer:N" where N is no rank of the world, or is none that can be known.
void check_trainer(const chaos_view& v, std::string_view number) {
  std::uint32_t rank = 0;
  const auto* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, rank);
  const auto world = v.of.values.cluster.ranks;
  const bool canonical = std::to_string(rank) == number;  // "trainer:01" names no actor
  const bool known = v.of.sound("cluster.ranks");
  if (read.ec == std::errc{} && read.ptr == end && canonical && (!known || rank < world)) return;
  v.refuse("actor", {"a trainer from " + world_text(world), show(v.entry.actor), {}});
}

void kill_actor_names_an_actor(draft& of) {
  for_each_entry(of, [](const chaos_view& v) {
    if (!v.has_kind() || !v.sound("actor")) return;
    if (v.entry.kind != chaos_kind::kill_actor) return;
    const auto wanted = expected(*find_key(chaos_table, "actor"));
    const std::string_view actor = v.entry.actor;
    if (actor.empty()) return v.refuse("actor", {wanted, "none", {}});
    if (actor.starts_with(trainer_prefix)) {
      return check_trainer(v, actor.substr(trainer_prefix.size()));
    }
    if (std::ranges::find(plain_actors, actor) != plain_actors.end()) return;
    std::string hint;
    const auto stem = actor.substr(0, actor.find(':'));
    if (const auto close = nearest(actor, plain_actors)) {
      hint = "did you mean " + quote(*close) + "?";
    } else if (edit_distance(stem, "trainer") <= 2) {
      hint = "did you mean \"trainer:0\"?";
    }
    v.refuse("actor", {wanted, show(actor), hint});
  });
}

void faults_can_happen(draft& of) {
  if (!of.sound("train.max_iterations") || of.values.train.max_iterations == 0) return;
  const auto last = of.values.train.max_iterations;
  for_each_entry(of, [last](const chaos_view& v) {
    for (const std::string_view key : {"at_iteration", "every_iterations", "every"}) {
      if (!v.given(key) || !v.sound(key)) continue;
      const auto when = key == "at_iteration" ? v.entry.at_iteration : v.entry.every_iterations;
      if (!when || *when <= last) continue;
      v.refuse(key, {"at most train.max_iterations = " + std::to_string(last),
                     std::to_string(*when), "the fault would never happen"});
    }
  });
}

constexpr std::array rows{
    rule{"Each entry has a `kind`.", has_a_kind},
    rule{"Each has exactly one of `at_iteration`, `every_iterations`, `every` and `mtbf`; with "
         "`in` = `\"start\"`, `\"join\"` or `\"stop\"` it may have none: then it is the first one.",
         one_when},
    rule{"`kill`, `stop`, `nan`, `flip_bit`, `slow` and `poison` have either `rank` or `ranks`; "
         "the others have no rank.",
         worker_faults_name_ranks},
    rule{"Only `kill_actor` has an `actor`.", only_actors_have_a_name},
    rule{"Only `nan` and `flip_bit` have a `target`.", only_numbers_have_a_target},
    rule{"Only `kill` and `stop` have an `in`.", only_signals_have_a_phase},
    rule{"`slow` has a `delay`, `clock_jump` has a `by`.", kinds_have_what_they_need},
    rule{"Only `slow` has a `delay` and `iterations`, only `clock_jump` a `by`.",
         other_keys_belong_to_their_kind},
    rule{"`poison` comes `at_iteration`.", poison_is_in_one_batch},
    rule{"Ranks are in the world, from 0 to `cluster.ranks` - 1, and each is named once.",
         ranks_are_in_the_world},
    rule{"`kill_actor` names an actor that exists; `N` of `\"trainer:N\"` is a rank.",
         kill_actor_names_an_actor},
    rule{"A fault comes before `train.max_iterations`, where that is given.", faults_can_happen},
};

}  // namespace

std::span<const rule> chaos_rules() {
  return rows;
}

}  // namespace ftrt::grammar
