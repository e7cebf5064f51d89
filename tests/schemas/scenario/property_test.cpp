// rapidcheck/gtest.h does not include what it uses.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <schemas/scenario/chaos_view.hpp>
#include <schemas/scenario/grammar.hpp>
#include <tests/schemas/scenario/scenario_text.hpp>

namespace ftrt::testing_scenario {
namespace {

template <class T>
T pick(std::initializer_list<T> choices) {
  return *rc::gen::elementOf(std::vector<T>(choices));
}

template <class T>
T between(T low, T high) {
  return *rc::gen::inRange<T>(low, high + 1);
}

double positive() {
  return (between(1, 1000000) + between(0, 999) / 1000.0) / 1e7;
}
double share() {
  return between(0, 9999) / 10000.0;
}
std::chrono::nanoseconds duration() {
  return std::chrono::nanoseconds{between<std::int64_t>(1000000, 3600000000000)};
}
std::uint64_t seed() {
  return between<std::uint64_t>(0, std::numeric_limits<std::int64_t>::max() - 1);
}

std::string word() {
  const auto letters = rc::gen::elementOf(std::string{"abzXYZ019_"});
  auto text = *rc::gen::container<std::string>(letters);
  return (text + "w").substr(0, 64);
}

void fill_model_and_data(scenario& s) {
  s.model.kind = pick<std::string>({"mlp", "cnn", "mymodel"});
  const auto widths =
      rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange<std::int64_t>(1, 65536));
  if (s.model.kind != "cnn") s.model.layers = *widths;
  if (s.model.kind != "mlp") s.model.channels = *widths;
  if (s.model.kind != "mlp") s.model.batch_norm = *rc::gen::arbitrary<bool>();
  s.model.dropout = share();
  s.data.kind = pick<std::string>({"mnist", "synthetic"});
  if (s.data.kind == "mnist") s.data.path = "/data/\"odd\" \\\t\x7f\u00e9/" + word();
  if (s.data.kind == "synthetic") s.data.samples = between(5000u, 100000u);
  s.data.limit = pick<std::uint64_t>({0, 4999});
  s.data.last = pick({last_window::keep, last_window::drop});
  s.data.shuffle = *rc::gen::arbitrary<bool>();
}

void fill_train(scenario& s) {
  auto& train = s.train;
  train.epochs = between(1u, 1000u);
  train.global_batch = between(1u, 4000u);
  train.micro_batch = between<std::uint64_t>(1, train.global_batch);
  train.optimizer = pick({optimizer_kind::sgd, optimizer_kind::adamw});
  train.lr = positive();
  if (train.optimizer == optimizer_kind::sgd) train.momentum = share();
  train.nesterov = train.momentum > 0 && *rc::gen::arbitrary<bool>();
  if (train.optimizer == optimizer_kind::adamw) train.beta2 = share();
  train.weight_decay = positive();
  train.schedule = pick({schedule_kind::constant, schedule_kind::cosine, schedule_kind::step});
  if (train.schedule == schedule_kind::cosine) train.min_lr = train.lr * share();
  if (train.schedule == schedule_kind::step) train.decay_every = between(1u, 500u);
  train.warmup_steps = between(0u, 500u);
  train.amp = pick({amp_mode::off, amp_mode::bf16, amp_mode::fp16});
  train.bucket_bytes = between(1024u, 1u << 30);
  s.cluster.ranks = between<std::uint32_t>(
      1, static_cast<std::uint32_t>(std::min<std::uint64_t>(8, s.micro_batches())));
}

void fill_when(chaos_entry& entry) {
  switch (between(0, 3)) {
    case 0:
      entry.at_iteration = between(1u, 5000u);
      break;
    case 1:
      entry.every_iterations = between(1u, 5000u);
      break;
    case 2:
      entry.every = duration();
      break;
    default:
      entry.mtbf = duration();
  }
}

void name_ranks(chaos_entry& entry, std::uint32_t world) {
  entry.all_ranks = *rc::gen::arbitrary<bool>();
  const auto last = between(0u, world - 1);
  for (std::uint32_t rank = 0; !entry.all_ranks && rank <= last; ++rank) {
    entry.ranks.push_back(rank);
  }
}

chaos_entry fault(std::uint32_t world) {
  chaos_entry entry;
  entry.kind = pick({chaos_kind::kill, chaos_kind::stop, chaos_kind::kill_actor, chaos_kind::nan,
                     chaos_kind::flip_bit, chaos_kind::slow, chaos_kind::kill_zygote,
                     chaos_kind::kill_supervisor, chaos_kind::clock_jump, chaos_kind::poison});
  if (entry.kind == chaos_kind::poison) {
    entry.at_iteration = between(1u, 5000u);
  } else {
    fill_when(entry);
  }
  switch (entry.kind) {
    case chaos_kind::kill:
    case chaos_kind::stop:
      entry.in = pick({chaos_phase::any, chaos_phase::optimizer, chaos_phase::stop});
      break;
    case chaos_kind::nan:
    case chaos_kind::flip_bit:
      entry.target = pick({chaos_target::gradient, chaos_target::parameter});
      break;
    case chaos_kind::slow:
      entry.delay = duration();
      if (*rc::gen::arbitrary<bool>()) entry.iterations = between(1u, 100u);
      break;
    case chaos_kind::clock_jump:
      entry.by = *rc::gen::arbitrary<bool>() ? duration() : -duration();
      break;
    case chaos_kind::kill_actor:
      entry.actor =
          pick<std::string>({"trainer:" + std::to_string(between(0u, world - 1)), "checkpoint",
                             "metrics", "run_supervisor", "host_supervisor"});
      break;
    default:
      break;
  }
  if (grammar::strikes_workers(entry.kind)) name_ranks(entry, world);
  entry.seed = seed();
  entry.max_count = between(0u, 10u);
  return entry;
}

void fill_expect(scenario& s) {
  if (*rc::gen::arbitrary<bool>()) return;
  s.expect.status = pick<std::string>({"completed", "stopped", "failed"});
  s.expect.weights_digest = pick<std::string>({"", "same_as_fault_free", std::string(32, '7')});
  s.expect.max_lost_iterations = between(0u, 1000u);
  s.expect.min_recoveries = between(0u, 3u);
  if (*rc::gen::arbitrary<bool>()) s.expect.max_recoveries = between(3u, 9u);
}

scenario any_valid_scenario() {
  scenario s;
  s.run.name = word();
  s.run.seed = seed();
  fill_model_and_data(s);
  fill_train(s);
  s.checkpoint.keep_last = between(1u, 10u);
  s.supervision.window = duration();
  s.supervision.grace_period = duration();
  s.supervision.backoff_max = duration();
  s.supervision.backoff_initial = s.supervision.backoff_max / 2;
  s.metrics.tensorboard = *rc::gen::arbitrary<bool>();
  fill_expect(s);
  const auto faults = between(0, 4);
  for (int i = 0; i < faults; ++i) s.chaos.push_back(fault(s.cluster.ranks));
  return s;
}

// rapidcheck prints the seed and the smallest failing scenario.
RC_GTEST_PROP(to_toml, is_read_back_to_an_equal_scenario, ()) {
  const auto s = any_valid_scenario();
  const auto text = to_toml(s);
  const auto outcome = parse(text);
  RC_LOG() << text << testing::PrintToString(described(outcome));
  RC_ASSERT(outcome.has_value());
  RC_ASSERT(outcome->values == s);
  RC_ASSERT(to_toml(outcome->values) == text);
}

// Another value of the same type, valid or not.
struct alter {
  void operator()(std::string* to) const { *to += "x"; }
  void operator()(std::filesystem::path* to) const { *to += "x"; }
  void operator()(bool* to) const { *to = !*to; }
  void operator()(std::vector<std::int64_t>* to) const { to->push_back(1); }
  void operator()(std::chrono::nanoseconds* to) const { ++*to; }
  void operator()(chaos_entry* to) const { to->all_ranks = !to->all_ranks; }
  template <class Value>
  void operator()(std::optional<Value>* to) const {
    *to = to->has_value() ? std::nullopt : std::optional<Value>{Value{1}};
  }
  template <class Value>
  void operator()(Value* to) const {
    *to = static_cast<Value>(*to == Value{} ? 1 : 0);
  }
};

RC_GTEST_PROP(scenario_equality, sees_a_change_of_any_one_value, ()) {
  auto s = any_valid_scenario();
  s.chaos.emplace_back();
  RC_ASSERT(s == scenario{s});
  for (const auto& key : grammar::keys()) {
    auto other = s;
    std::visit(alter{}, key.at(other, s.chaos.size() - 1));
    RC_LOG() << grammar::full_name(key);
    RC_ASSERT(!(s == other));
  }
}

constexpr std::string_view seed_text = R"(# a comment
[run]
name = "fuzz"
[cluster]
ranks = 2
[model]
kind = "mlp"
layers = [784, 32, 10]
dropout = 0.25
[data]
path = "/data/mnist"
[train]
lr = 0.1
bucket_bytes = "4MiB"
amp = "bf16"
[supervision]
window = "2min"
[[chaos]]
kind = "kill"
ranks = [0, 1]
every = "1.5s"
[[chaos]]
kind = "kill_actor"
actor = "trainer:1"
mtbf = "3s"
)";

void mutate(std::string& text, std::mt19937_64& random) {
  static constexpr std::string_view spice = "[]{}=\".,#\n\\'0123456789-+e_ \t\xff\x00:\x80nanif";
  const auto position = random() % (text.size() + 1);
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(position);
  const char c = spice[random() % spice.size()];
  switch (random() % 4) {
    case 0:
      text.insert(end, c);
      break;
    case 1:
      if (position < text.size()) text[position] = c;
      break;
    case 2:
      text.erase(position, random() % 8);
      break;
    default:
      text.insert(position, text.substr(random() % (text.size() + 1), random() % 24));
  }
}

void expect_a_scenario_or_reasons(const checked<loaded_scenario>& outcome) {
  if (outcome) {
    EXPECT_EQ(parse(to_toml(outcome->values)).value().values, outcome->values);
    return;
  }
  EXPECT_FALSE(outcome.error().empty());
  for (const auto& fault : outcome.error()) {
    EXPECT_FALSE(fault.expected.empty());
    EXPECT_FALSE(fault.found.empty());
  }
}

TEST(scenario_fuzz, a_mutated_scenario_gives_a_scenario_or_diagnostics) {
  const std::uint64_t start = std::random_device{}();
  for (std::uint64_t round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(start + round));
    std::mt19937_64 random{start + round};
    std::string text{seed_text};
    const auto edits = 1 + random() % 6;
    for (std::uint64_t i = 0; i < edits; ++i) mutate(text, random);
    expect_a_scenario_or_reasons(parse(text));
  }
}

TEST(scenario_fuzz, random_bytes_give_diagnostics) {
  const std::uint64_t start = std::random_device{}();
  for (std::uint64_t round = 0; round < 1000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(start + round));
    std::mt19937_64 random{start + round};
    std::string text(random() % 300, '\0');
    std::ranges::generate(text, [&] { return static_cast<char>(random()); });
    expect_a_scenario_or_reasons(parse(text));
    expect_a_scenario_or_reasons(parse(valid, {text}));
    expect_a_scenario_or_reasons(parse(valid, {"train.lr=" + text}));
  }
}

TEST(scenario_fuzz, deep_nesting_is_refused) {
  expect_a_scenario_or_reasons(parse("[train]\nlr = " + std::string(100000, '[')));
  expect_a_scenario_or_reasons(parse(valid, {"train.lr=" + std::string(100000, '[')}));
}

}  // namespace
}  // namespace ftrt::testing_scenario
