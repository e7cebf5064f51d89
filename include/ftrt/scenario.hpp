#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ftrt {

enum class device_kind : std::uint8_t { cpu, cuda };
enum class amp_mode : std::uint8_t { off, bf16, fp16 };
enum class optimizer_kind : std::uint8_t { sgd, adamw };
enum class schedule_kind : std::uint8_t { constant, cosine, step };
enum class last_window : std::uint8_t { keep, drop };
// What becomes of a batch that kills its rank again and again.
enum class poison_policy : std::uint8_t { stop, skip };
// What becomes of a run that no worker can be started for.
enum class replacement_policy : std::uint8_t { stop, wait };
// What ranks do with an iteration whose loss or gradients are not finite.
enum class non_finite_policy : std::uint8_t { skip, rollback, stop };
// What control does about a rank whose compute time is an outlier.
enum class straggler_policy : std::uint8_t { report, replace };
enum class chaos_kind : std::uint8_t {
  kill,             // SIGKILL of workers
  stop,             // SIGSTOP of workers
  kill_actor,       // an actor of the control process ends
  nan,              // a number of workers becomes NaN
  flip_bit,         // one bit of a number of workers flips
  slow,             // workers pause before each micro-batch
  kill_zygote,      // SIGKILL of the process that workers are forked from
  kill_supervisor,  // SIGKILL of the control process itself
  clock_jump,       // the control process's clocks jump
  poison,           // the batch of an iteration kills workers whenever they compute it
};
enum class chaos_target : std::uint8_t { gradient, parameter };
// Where in a worker's life a fault strikes.
enum class chaos_phase : std::uint8_t {
  any,         // wherever it is
  all_reduce,  // its gradients are computed and on their way
  optimizer,   // its weights are new, its iteration is not committed: the state is torn
  snapshot,    // before it writes one
  join,        // it has met the others, and state is being copied
  evaluate,    // it has computed its share of the test set
  start,       // a new worker, before it enters a generation
  stop,        // training is over, the final snapshot is not written yet
};

// One fault to cause. Exactly one of at_iteration, every_iterations, every, mtbf says when; `in`
// start, join or stop may do without: then it is the first one of those.
struct chaos_entry {
  chaos_kind kind = chaos_kind::kill;
  std::vector<std::uint32_t> ranks;  // kinds that strike workers: these ranks at once
  bool all_ranks = false;            // the same: every rank at once
  std::string actor;                 // kill_actor: "trainer:1", "checkpoint", "metrics", ...
  chaos_target target = chaos_target::gradient;   // nan, flip_bit: where the number goes wrong
  chaos_phase in = chaos_phase::any;              // kill, stop: in the midst of what
  std::optional<std::chrono::nanoseconds> delay;  // slow: before each micro-batch
  std::optional<std::uint64_t> iterations;        // slow: for so many; none: as long as it lives
  std::optional<std::chrono::nanoseconds> by;     // clock_jump: forward, or less than 0: back
  std::optional<std::uint64_t> at_iteration;
  std::optional<std::uint64_t> every_iterations;
  std::optional<std::chrono::nanoseconds> every;
  std::optional<std::chrono::nanoseconds> mtbf;  // exponential, mean time between faults
  std::uint64_t seed = 0;                        // of mtbf and of a random choice of rank
  std::uint64_t max_count = 0;                   // stop after so many; 0: no limit

  friend bool operator==(const chaos_entry&, const chaos_entry&) = default;
};

// Everything a run is asked to do, resolved: every value is present and in range, relative paths
// were resolved against the scenario's folder. Plain data, copied freely.
//
// The grammar (names, units, ranges, meaning of each key) is docs/scenario.md, generated from the
// one table in schemas/scenario/grammar.cpp.
struct scenario {
  struct {
    std::string name = "run";
    std::uint64_t seed = 1;
    std::filesystem::path directory = "runs";
  } run;

  struct {
    std::uint32_t ranks = 2;
    device_kind device = device_kind::cpu;
    std::string communicator = "shm";
  } cluster;

  struct {
    std::string kind = "mlp";            // "mlp", "cnn"
    std::vector<std::int64_t> layers;    // mlp: widths, input first, classes last
    std::vector<std::int64_t> channels;  // cnn: channels of each convolution
    double dropout = 0.0;
    bool batch_norm = false;  // cnn
  } model;

  struct {
    std::string kind = "mnist";            // "mnist" (IDX files), "synthetic"
    std::filesystem::path path;            // mnist: folder of the four IDX files, plain or .gz
    std::uint64_t samples = 4096;          // synthetic: training samples
    std::uint64_t test_samples = 1024;     // synthetic: test samples
    std::uint64_t limit = 0;               // use only the first n training samples; 0: all
    last_window last = last_window::keep;  // the short window at an epoch's end
    bool shuffle = true;
  } data;

  struct {
    std::uint64_t epochs = 1;
    std::uint64_t max_iterations = 0;  // 0: as many as the epochs have
    std::uint64_t global_batch = 128;  // samples of one iteration over all ranks
    std::uint64_t micro_batch = 32;    // samples of one forward/backward
    optimizer_kind optimizer = optimizer_kind::sgd;
    double lr = 0.1;
    double momentum = 0.0;
    bool nesterov = false;
    double weight_decay = 0.0;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double clip_norm = 0.0;  // 0: no clipping
    schedule_kind schedule = schedule_kind::constant;
    std::uint64_t warmup_steps = 0;  // optimizer steps of linear warm-up
    std::uint64_t decay_every = 0;   // step schedule: optimizer steps between decays
    double decay_factor = 0.1;       // step schedule
    double min_lr = 0.0;             // cosine: final learning rate
    amp_mode amp = amp_mode::off;
    double init_scale = 65536.0;  // fp16 loss scaler
    std::uint64_t scale_growth_interval = 2000;
    std::uint64_t evaluate_every_epochs = 1;  // 0: only at the end
    std::uint64_t bucket_bytes = 4u << 20;
    non_finite_policy on_non_finite = non_finite_policy::skip;
    std::uint64_t max_non_finite_rollbacks = 3;  // in a row without a new commit
  } train;

  struct {
    std::uint64_t every_iterations = 100;  // 0: only the final one
    std::uint64_t keep_last = 3;
    bool verify = true;  // read each checkpoint back before it is called verified
    std::uint64_t snapshot_every_iterations = 0;  // 0: only where a checkpoint is due
    bool restore_from_memory = true;  // without survivors: newest snapshot before checkpoints
  } checkpoint;

  struct {
    std::uint64_t max_restarts = 1000;  // restarts allowed within `window`
    std::chrono::nanoseconds window = std::chrono::minutes{1};
    std::uint64_t max_failures_without_progress = 5;  // generations in a row with no new commit
    std::chrono::nanoseconds backoff_initial = std::chrono::milliseconds{50};
    std::chrono::nanoseconds backoff_max = std::chrono::seconds{5};
    poison_policy poisoned_batch = poison_policy::stop;
    std::uint64_t poisoned_after = 3;  // deaths in a row in one iteration, of one cause
    replacement_policy no_replacement = replacement_policy::stop;
    std::chrono::nanoseconds start_timeout = std::chrono::seconds{60};
    std::chrono::nanoseconds park_timeout = std::chrono::seconds{5};
    std::chrono::nanoseconds join_timeout = std::chrono::seconds{30};
    std::chrono::nanoseconds stop_timeout = std::chrono::seconds{30};
    std::chrono::nanoseconds grace_period = std::chrono::seconds{3};
    bool hang_detection = true;
    std::chrono::nanoseconds hang_floor = std::chrono::milliseconds{500};
    double hang_factor = 20;
    std::chrono::nanoseconds hang_timeout_first = std::chrono::minutes{1};
    std::chrono::nanoseconds hang_timeout_join = std::chrono::seconds{10};
    std::chrono::nanoseconds hang_timeout_load = std::chrono::minutes{1};
    std::chrono::nanoseconds hang_timeout_evaluate = std::chrono::minutes{1};
    std::chrono::nanoseconds hang_timeout_save = std::chrono::minutes{1};
    bool core_dumps = false;
    std::uint32_t spares = 1;                   // warm workers that wait for a rank to be lost
    std::uint64_t digest_every_iterations = 0;  // 0: so rarely that it costs under 1 % of a step
    straggler_policy on_straggler = straggler_policy::report;
    double straggler_factor = 2;  // times the other ranks' compute time
  } supervision;

  struct {
    bool tensorboard = true;
    std::uint64_t every_iterations = 10;  // iterations between two points of a series
  } metrics;

  // What the run must come to, checked at its end; what is not said is not checked.
  struct {
    std::string status;                                // "completed", "stopped", "failed"
    std::string weights_digest;                        // "same_as_fault_free", or 32 hex digits
    std::optional<std::uint64_t> max_lost_iterations;  // committed ones that one rollback may undo
    std::optional<std::uint64_t> min_recoveries;       // returns from the loss of ranks
    std::optional<std::uint64_t> max_recoveries;
    std::optional<std::uint64_t> min_actor_restarts;
  } expect;

  std::vector<chaos_entry> chaos;

  // Microbatches of a full window: ceil(global_batch / micro_batch).
  [[nodiscard]] std::uint64_t micro_batches() const {
    return (train.global_batch + train.micro_batch - 1) / train.micro_batch;
  }
};

// Equal in every key.
[[nodiscard]] bool operator==(const scenario& a, const scenario& b);

// One thing wrong with a scenario (or its data): where, what was expected, what was found, the
// nearest valid name. `line` is 0 where no line applies (a --set override, a data file).
struct diagnostic {
  std::string file;
  std::uint32_t line = 0;
  std::string key;       // "train.lr"
  std::string expected;  // "a number greater than 0"
  std::string found;     // "-0.1"
  std::string hint;      // "did you mean `momentum`?"; may be empty

  // "scenarios/a.toml:12: train.lr: expected a number greater than 0, found -0.1"
  [[nodiscard]] std::string describe() const;
};

// Where a resolved value came from.
enum class value_origin : std::uint8_t { default_value, file, override_flag };

struct resolved_value {
  std::string key;    // "train.lr"
  std::string value;  // TOML spelling: 0.05, "200ms", true
  value_origin origin = value_origin::default_value;
  std::string where;  // "mnist.toml:12", "--set", "default"
};

struct loaded_scenario {
  scenario values;
  std::vector<resolved_value> resolved;  // in the order of the grammar
};

template <class T>
using checked = tl::expected<T, std::vector<diagnostic>>;

// Reads a scenario, applies overrides ("train.lr=0.05"), checks every key, type, range and
// cross-field rule, and reports all faults at once. Reads no data file. Any thread.
[[nodiscard]] checked<loaded_scenario> load_scenario(
    const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

// The same from text; `name` stands for the file in diagnostics, and relative paths are resolved
// against `base`.
[[nodiscard]] checked<loaded_scenario> parse_scenario(
    std::string_view toml, std::string_view name, const std::filesystem::path& base,
    const std::vector<std::string>& overrides = {});

// A TOML text that parse_scenario() reads back to an equal scenario: what a run directory keeps and
// what a worker is given.
[[nodiscard]] std::string to_toml(const scenario& values);

// The same checks for a scenario that a program has filled by hand; empty: nothing is wrong. The
// diagnostics name keys, but no file and no line.
[[nodiscard]] std::vector<diagnostic> check_scenario(const scenario& values);

}  // namespace ftrt
