#include <schemas/scenario/rules.hpp>

#include <algorithm>
#include <array>
#include <schemas/scenario/spell.hpp>
#include <schemas/scenario/units.hpp>

namespace ftrt::grammar {
namespace {

bool sound(const draft& of, std::initializer_list<const char*> keys) {
  return std::ranges::all_of(keys, [&](const char* key) { return of.sound(key); });
}

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

// "128 / 32 = 4 micro-batches", rounded up where it must be.
std::string window(const scenario& s) {
  const bool even = s.train.global_batch % s.train.micro_batch == 0;
  return "a full window of " + text(s.train.global_batch) + " samples has " +
         (even ? "" : "ceil(") + text(s.train.global_batch) + " / " + text(s.train.micro_batch) +
         (even ? "" : ")") + " = " + text(s.micro_batches()) + " micro-batches";
}

void micro_batch_fits(draft& of) {
  if (!sound(of, {"train.micro_batch", "train.global_batch"})) return;
  const auto& train = of.values.train;
  if (train.micro_batch <= train.global_batch) return;
  of.complain_at("train.micro_batch", {"train.global_batch"},
                 {"at most global_batch = " + text(train.global_batch), text(train.micro_batch),
                  "a micro-batch is a part of the global batch"});
}

void each_rank_has_work(draft& of) {
  if (!sound(of, {"train.micro_batch", "train.global_batch", "cluster.ranks"})) return;
  const auto& s = of.values;
  if (s.train.micro_batch > s.train.global_batch || s.cluster.ranks <= s.micro_batches()) return;
  const auto most = s.train.global_batch / s.cluster.ranks;
  const auto hint = window(s) + ", and each rank needs one" +
                    (most == 0 ? "" : "; train.micro_batch = " + text(most) + " would do");
  of.complain_at("cluster.ranks", {"train.micro_batch", "train.global_batch"},
                 {"at most " + text(s.micro_batches()) + " ranks", text(s.cluster.ranks), hint});
}

void data_fills_a_batch(draft& of) {
  if (!sound(of, {"data.kind", "data.samples", "data.limit", "train.global_batch"})) return;
  if (!sound(of, {"train.micro_batch", "cluster.ranks"})) return;
  const auto& s = of.values;
  const bool synthetic = s.data.kind == "synthetic";
  const bool limited = s.data.limit != 0 && (!synthetic || s.data.limit < s.data.samples);
  const auto samples = limited ? s.data.limit : s.data.samples;
  if ((!synthetic && !limited) || s.train.global_batch <= samples) return;
  const std::string why = limited ? "data.limit" : "data.samples";
  of.complain_at(
      "train.global_batch", {why},
      {"at most the " + text(samples) + " training samples (" + why + " = " + text(samples) + ")",
       text(s.train.global_batch),
       window(s) + " of " + text(s.train.micro_batch) + ", for " + text(s.cluster.ranks) +
           " ranks"});
}

void mlp_has_layers(draft& of) {
  if (!sound(of, {"model.kind", "model.layers"}) || of.values.model.kind != "mlp") return;
  const auto count = of.values.model.layers.size();
  if (count >= 2) return;
  const auto found = count == 0 ? "none" : spell_value(*find_key("model", "layers"), of.values);
  of.complain_at("model.layers", {},
                 {"at least two widths for an mlp, input and classes", found.value(),
                  "for MNIST: layers = [784, 128, 10]"});
}

void cnn_has_channels(draft& of) {
  if (!sound(of, {"model.kind", "model.channels"}) || of.values.model.kind != "cnn") return;
  if (!of.values.model.channels.empty()) return;
  of.complain_at("model.channels", {},
                 {"at least one convolution for a cnn", "none", "for MNIST: channels = [16, 32]"});
}

void mnist_has_a_path(draft& of) {
  if (!sound(of, {"data.kind", "data.path"}) || of.values.data.kind != "mnist") return;
  if (!of.values.data.path.empty()) return;
  of.complain_at("data.path", {},
                 {"the folder of the four IDX files", "none", "path = \"../data/mnist\""});
}

void nesterov_has_momentum(draft& of) {
  if (!sound(of, {"train.nesterov", "train.momentum"})) return;
  if (!of.values.train.nesterov || of.values.train.momentum > 0) return;
  of.complain_at("train.nesterov", {},
                 {"false, or a momentum greater than 0", "true with momentum = 0.0", {}});
}

void step_schedule_decays(draft& of) {
  if (!sound(of, {"train.schedule", "train.decay_every"})) return;
  const auto& train = of.values.train;
  if (train.schedule != schedule_kind::step || train.decay_every > 0) return;
  of.complain_at("train.decay_every", {"train.schedule"},
                 {"at least 1 optimizer step for schedule = \"step\"", "0", {}});
}

void learning_rate_falls(draft& of) {
  if (!sound(of, {"train.lr", "train.min_lr"})) return;
  const auto& train = of.values.train;
  if (train.min_lr <= train.lr) return;
  of.complain_at("train.min_lr", {"train.lr"},
                 {"at most lr = " + short_number(train.lr), short_number(train.min_lr), {}});
}

void warmup_ends(draft& of) {
  if (!sound(of, {"train.warmup_steps", "train.max_iterations"})) return;
  const auto& train = of.values.train;
  if (train.max_iterations == 0 || train.warmup_steps <= train.max_iterations) return;
  of.complain_at("train.warmup_steps", {"train.max_iterations"},
                 {"at most max_iterations = " + text(train.max_iterations),
                  text(train.warmup_steps), "the warm-up would never end"});
}

void communicator_meets_device(draft& of) {
  if (!sound(of, {"cluster.device", "cluster.communicator"})) return;
  const auto& cluster = of.values.cluster;
  const bool cuda = cluster.device == device_kind::cuda;
  const std::string wanted = cuda ? "nccl" : "shm";
  if (cluster.communicator == wanted) return;
  of.complain_at("cluster.communicator", {"cluster.device"},
                 {quote(wanted) + " for device = " + (cuda ? "\"cuda\"" : "\"cpu\""),
                  quote(cluster.communicator),
                  {}});
}

void backoff_grows(draft& of) {
  if (!sound(of, {"supervision.backoff_initial", "supervision.backoff_max"})) return;
  const auto& policy = of.values.supervision;
  if (policy.backoff_initial <= policy.backoff_max) return;
  of.complain_at("supervision.backoff_initial", {"supervision.backoff_max"},
                 {"at most backoff_max = " + quote(spell_duration(policy.backoff_max)),
                  quote(spell_duration(policy.backoff_initial)),
                  {}});
}

// Half of the restarts are kept for failures, and one rank alone has nobody to be slower than.
void stragglers_can_be_replaced(draft& of) {
  if (!sound(of, {"supervision.on_straggler", "supervision.max_restarts", "cluster.ranks"})) return;
  const auto& policy = of.values.supervision;
  if (policy.on_straggler != straggler_policy::replace) return;
  if (of.values.cluster.ranks < 2) {
    of.complain_at("supervision.on_straggler", {"cluster.ranks"},
                   {"\"report\" for a single rank, or at least 2 ranks",
                    "\"replace\" with ranks = " + text(of.values.cluster.ranks),
                    "a straggler is slower than other ranks"});
  } else if (policy.max_restarts < 2) {
    of.complain_at("supervision.on_straggler", {"supervision.max_restarts"},
                   {"\"report\", or a max_restarts of at least 2",
                    "\"replace\" with max_restarts = " + text(policy.max_restarts),
                    "a straggler is replaced with the first half of the restarts only"});
  }
}

void recoveries_can_be_met(draft& of) {
  if (!sound(of, {"expect.min_recoveries", "expect.max_recoveries"})) return;
  const auto& wanted = of.values.expect;
  if (!wanted.min_recoveries || !wanted.max_recoveries) return;
  if (*wanted.min_recoveries <= *wanted.max_recoveries) return;
  of.complain_at("expect.min_recoveries", {},
                 {"at most max_recoveries = " + text(*wanted.max_recoveries),
                  text(*wanted.min_recoveries),
                  {}});
}

// A key that means something to one choice only. Its default elsewhere is fine, so that a resolved
// scenario, which spells every value, stays valid.
struct belongs {
  const char* key;
  const char* choice;
  const char* value;
};
constexpr std::array belongings{
    belongs{"model.layers", "model.kind", "mlp"},
    belongs{"model.channels", "model.kind", "cnn"},
    belongs{"model.batch_norm", "model.kind", "cnn"},
    belongs{"data.path", "data.kind", "mnist"},
    belongs{"data.samples", "data.kind", "synthetic"},
    belongs{"data.test_samples", "data.kind", "synthetic"},
    belongs{"train.momentum", "train.optimizer", "sgd"},
    belongs{"train.nesterov", "train.optimizer", "sgd"},
    belongs{"train.beta1", "train.optimizer", "adamw"},
    belongs{"train.beta2", "train.optimizer", "adamw"},
    belongs{"train.eps", "train.optimizer", "adamw"},
    belongs{"train.decay_every", "train.schedule", "step"},
    belongs{"train.decay_factor", "train.schedule", "step"},
    belongs{"train.min_lr", "train.schedule", "cosine"},
};

const key_spec& key_of(std::string_view full) {
  const auto dot = full.find('.');
  const auto* key = find_key(full.substr(0, dot), full.substr(dot + 1));
  FTRT_ASSERT(key != nullptr);
  return *key;
}

void keys_belong(draft& of) {
  static const scenario defaults;
  for (const auto& row : belongings) {
    if (!sound(of, {row.key, row.choice})) continue;
    const auto& key = key_of(row.key);
    const auto& choice = key_of(row.choice);
    const auto value = spell_value(key, of.values).value_or("none");
    const auto chosen = spell_value(choice, of.values).value();
    const auto wanted = quote(row.value);
    // A registered model of one's own may use any key of [model].
    const bool own =
        choice.type == value_type::kind &&
        std::ranges::find(choice.choices, of.values.model.kind) == choice.choices.end();
    if (own || chosen == wanted || value == spell_value(key, defaults).value_or("none")) continue;
    of.complain_at(row.key, {row.choice},
                   {"this key only with " + std::string{choice.name} + " = " + wanted,
                    value + " with " + std::string{choice.name} + " = " + chosen,
                    {}});
  }
}

constexpr std::array rows{
    rule{"`train.micro_batch` is at most `train.global_batch`.", micro_batch_fits},
    rule{"Each rank has at least one micro-batch of a full window: `cluster.ranks` is at most "
         "`ceil(train.global_batch / train.micro_batch)`.",
         each_rank_has_work},
    rule{"The training samples (where the scenario says how many: `data.samples`, `data.limit`) "
         "fill at least one global batch.",
         data_fills_a_batch},
    rule{"An mlp has at least two `model.layers`.", mlp_has_layers},
    rule{"A cnn has at least one of `model.channels`.", cnn_has_channels},
    rule{"`data.kind = \"mnist\"` needs a `data.path`.", mnist_has_a_path},
    rule{"`train.nesterov` needs a `train.momentum` greater than 0.", nesterov_has_momentum},
    rule{"`train.schedule = \"step\"` needs a `train.decay_every`.", step_schedule_decays},
    rule{"`train.min_lr` is at most `train.lr`.", learning_rate_falls},
    rule{"`train.warmup_steps` is at most `train.max_iterations`, where that is given.",
         warmup_ends},
    rule{"`cluster.communicator` is `\"shm\"` for the CPU and `\"nccl\"` for CUDA.",
         communicator_meets_device},
    rule{"`supervision.backoff_initial` is at most `supervision.backoff_max`.", backoff_grows},
    rule{"`supervision.on_straggler = \"replace\"` needs at least 2 `cluster.ranks` and a "
         "`supervision.max_restarts` of at least 2.",
         stragglers_can_be_replaced},
    rule{"`expect.min_recoveries` is at most `expect.max_recoveries`.", recoveries_can_be_met},
    rule{"A key that is marked as one of a choice (\"sgd:\", \"cnn:\", \"synthetic:\") has a value "
         "other than its default only with that choice, so that none is silently ignored; the "
         "loss scaler's keys are the exception.",
         keys_belong},
};

}  // namespace

std::span<const rule> rules() {
  return rows;
}

void check_rules(draft& of) {
  for (const auto& row : rules()) row.check(of);
  for (const auto& row : chaos_rules()) row.check(of);
}

}  // namespace ftrt::grammar
