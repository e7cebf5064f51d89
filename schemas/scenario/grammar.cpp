#include <schemas/scenario/grammar.hpp>

#include <array>

namespace ftrt::grammar {
namespace {

using enum value_type;

// The accessors of the rows below: a member of the scenario, and one of its nth chaos entry.
#define FTRT_AT(member) [](scenario& s, std::size_t) -> slot { return &s.member; }
#define FTRT_IN(member) [](scenario& s, std::size_t n) -> slot { return &s.chaos[n].member; }
#define FTRT_ENTRY [](scenario& s, std::size_t n) -> slot { return &s.chaos[n]; }

constexpr double nanosecond = 1;
constexpr double millisecond = 1e6 * nanosecond;
constexpr double hour = 3.6e12 * nanosecond;
constexpr double largest = 9223372036854775807.0;  // TOML's largest integer

constexpr limits none{};
constexpr limits at_least(double low) {
  return {.low = low};
}
constexpr limits between(double low, double high) {
  return {.low = low, .high = high};
}
constexpr limits above(double low) {
  return {.low = low, .low_open = true};
}
constexpr limits below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}
constexpr limits within(double low, double high) {
  return {.low = low, .high = high, .low_open = true};
}
constexpr limits count = at_least(0);
constexpr limits positive_count = at_least(1);
// epochs x samples must fit into 64 bits with room to spare.
constexpr limits samples = between(1, 1e9);
constexpr limits timeout = between(millisecond, 24 * hour);

constexpr std::array table_rows{
    table_spec{"run", "What the run is called and where it leaves what it makes."},
    table_spec{"cluster", "The ranks and what they speak over."},
    table_spec{"model", "What is trained."},
    table_spec{"data", "What it is trained on."},
    table_spec{"train", "How it is trained: windows, optimizer, schedule, precision."},
    table_spec{"checkpoint", "What is kept on disk to come back to."},
    table_spec{"supervision", "How patiently lost ranks and actors are brought back."},
    table_spec{"metrics", "What is written down while it trains."},
    table_spec{"expect",
               "What the run must come to; it is checked at the end, and what is not met makes the "
               "exit code 1. A run that is stopped early is held to nothing but a `status` that is "
               "asked for."},
    table_spec{chaos_table, "Faults to cause on purpose, one `[[chaos]]` for each."},
};

const std::vector<key_spec>& key_rows() {
  // clang-format off
  static const std::vector<key_spec> rows{
    {"run", "name", word, FTRT_AT(run.name), none, {},
     "A name for people; part of the run's id and so of its folder."},
    {"run", "seed", integer, FTRT_AT(run.seed), between(0, largest), {},
     "Initial weights, the order of samples and dropout are functions of it."},
    {"run", "directory", path, FTRT_AT(run.directory), none, {},
     "Where runs are kept, each in a folder of its own. A relative path starts at the current "
     "directory of the command."},

    {"cluster", "ranks", integer, FTRT_AT(cluster.ranks), between(1, 1024), {},
     "Worker processes that train together."},
    {"cluster", "device", choice, FTRT_AT(cluster.device), none, {"cpu", "cuda"},
     "Where tensors live. `\"cuda\"` needs a GPU for each rank."},
    {"cluster", "communicator", choice, FTRT_AT(cluster.communicator), none, {"shm", "nccl"},
     "How ranks exchange gradients: `\"shm\"` for `device = \"cpu\"`, `\"nccl\"` for `\"cuda\"`."},

    {"model", "kind", kind, FTRT_AT(model.kind), none, {"mlp", "cnn"},
     "A built-in model, or one that your own worker program registered."},
    {"model", "layers", integers, FTRT_AT(model.layers), between(1, 1e6), {},
     "mlp: width of each layer, input first, classes last."},
    {"model", "channels", integers, FTRT_AT(model.channels), between(1, 65536), {},
     "cnn: channels of each convolution."},
    {"model", "dropout", number, FTRT_AT(model.dropout), below(0, 1), {},
     "Share of activations that are dropped in training."},
    {"model", "batch_norm", boolean, FTRT_AT(model.batch_norm), none, {},
     "cnn: normalise after each convolution."},

    {"data", "kind", choice, FTRT_AT(data.kind), none, {"mnist", "synthetic"},
     "`\"mnist\"`: the four IDX files, plain or .gz. `\"synthetic\"`: made from the seed."},
    {"data", "path", path, FTRT_AT(data.path), none, {},
     "mnist: the folder of the files. A relative path starts at the folder of the scenario file; "
     "given by `--set`, at the current directory."},
    {"data", "samples", integer, FTRT_AT(data.samples), samples, {},
     "synthetic: training samples."},
    {"data", "test_samples", integer, FTRT_AT(data.test_samples), samples, {},
     "synthetic: test samples."},
    {"data", "limit", integer, FTRT_AT(data.limit), count, {},
     "Use only the first so many training samples; 0: all."},
    {"data", "last", choice, FTRT_AT(data.last), none, {"keep", "drop"},
     "What becomes of a last window of an epoch that is not full."},
    {"data", "shuffle", boolean, FTRT_AT(data.shuffle), none, {},
     "A new order of samples each epoch."},

    {"train", "epochs", integer, FTRT_AT(train.epochs), between(1, 1e6), {},
     "Passes over the training samples."},
    {"train", "max_iterations", integer, FTRT_AT(train.max_iterations), count, {},
     "Stop after so many iterations; 0: as many as the epochs have."},
    {"train", "global_batch", integer, FTRT_AT(train.global_batch), between(1, 1e9), {},
     "Samples of one iteration over all ranks."},
    {"train", "micro_batch", integer, FTRT_AT(train.micro_batch), between(1, 1e9), {},
     "Samples of one forward and backward; ranks accumulate gradients over theirs."},
    {"train", "optimizer", choice, FTRT_AT(train.optimizer), none, {"sgd", "adamw"},
     "How gradients change the weights."},
    {"train", "lr", number, FTRT_AT(train.lr), above(0), {},
     "Learning rate, after the warm-up."},
    {"train", "momentum", number, FTRT_AT(train.momentum), below(0, 1), {},
     "sgd: share of the last step that is kept."},
    {"train", "nesterov", boolean, FTRT_AT(train.nesterov), none, {},
     "sgd: look ahead along the momentum."},
    {"train", "weight_decay", number, FTRT_AT(train.weight_decay), at_least(0), {},
     "sgd: L2 penalty. adamw: decoupled decay."},
    {"train", "beta1", number, FTRT_AT(train.beta1), below(0, 1), {},
     "adamw: decay of the mean of gradients."},
    {"train", "beta2", number, FTRT_AT(train.beta2), below(0, 1), {},
     "adamw: decay of the mean of their squares."},
    {"train", "eps", number, FTRT_AT(train.eps), above(0), {},
     "adamw: keeps the division finite."},
    {"train", "clip_norm", number, FTRT_AT(train.clip_norm), at_least(0), {},
     "Largest norm of all gradients together; 0: no clipping."},
    {"train", "schedule", choice, FTRT_AT(train.schedule), none, {"constant", "cosine", "step"},
     "How the learning rate goes on after the warm-up."},
    {"train", "warmup_steps", integer, FTRT_AT(train.warmup_steps), count, {},
     "Optimizer steps in which the learning rate rises to `lr`."},
    {"train", "decay_every", integer, FTRT_AT(train.decay_every), count, {},
     "step schedule: optimizer steps from one decay to the next."},
    {"train", "decay_factor", number, FTRT_AT(train.decay_factor), within(0, 1), {},
     "step schedule: what the learning rate is multiplied by."},
    {"train", "min_lr", number, FTRT_AT(train.min_lr), at_least(0), {},
     "cosine schedule: the final learning rate."},
    {"train", "amp", choice, FTRT_AT(train.amp), none, {"off", "bf16", "fp16"},
     "Precision of forward and backward; weights stay float32. `\"fp16\"` scales the loss."},
    {"train", "init_scale", number, FTRT_AT(train.init_scale), between(1, 1.6777216e7), {},
     "fp16: the first scale of the loss."},
    {"train", "scale_growth_interval", integer, FTRT_AT(train.scale_growth_interval),
     between(1, 2147483647), {},
     "fp16: steps without an overflow before the scale doubles."},
    {"train", "evaluate_every_epochs", integer, FTRT_AT(train.evaluate_every_epochs), count, {},
     "Epochs from one evaluation on the test samples to the next; 0: only at the end."},
    {"train", "bucket_bytes", size, FTRT_AT(train.bucket_bytes), between(1024, 1073741824), {},
     "Gradients are reduced in buckets of this size."},
    {"train", "on_non_finite", choice, FTRT_AT(train.on_non_finite), none,
     {"skip", "rollback", "stop"},
     "What all ranks do when the loss or a gradient of any of them is NaN or infinite: `\"skip\"` "
     "the optimizer step, `\"rollback\"` to the last good checkpoint, or `\"stop\"` the run. An "
     "overflow that the loss scaler of fp16 answers by itself is always skipped."},
    {"train", "max_non_finite_rollbacks", integer, FTRT_AT(train.max_non_finite_rollbacks), count,
     {},
     "Rollbacks for that reason in a row, without a new committed iteration, before the run fails."},

    {"checkpoint", "every_iterations", integer, FTRT_AT(checkpoint.every_iterations), count, {},
     "Iterations from one checkpoint to the next; 0: only the final one."},
    {"checkpoint", "keep_last", integer, FTRT_AT(checkpoint.keep_last), between(1, 1e6), {},
     "How many are kept; never less than the newest good one."},
    {"checkpoint", "verify", boolean, FTRT_AT(checkpoint.verify), none, {},
     "Read each one back before it is called verified."},
    {"checkpoint", "snapshot_every_iterations", integer,
     FTRT_AT(checkpoint.snapshot_every_iterations), count, {},
     "Iterations from one snapshot in shared memory to the next, which all ranks are restored from "
     "when none survives; 0: only where a checkpoint is due."},
    {"checkpoint", "restore_from_memory", boolean, FTRT_AT(checkpoint.restore_from_memory), none,
     {},
     "When no rank survives, restore from the newest snapshot in shared memory if no checkpoint is "
     "newer; false: from checkpoints only."},

    {"supervision", "max_restarts", integer, FTRT_AT(supervision.max_restarts), count, {},
     "Restarts that are allowed within `window`; one more fails the run."},
    {"supervision", "window", duration, FTRT_AT(supervision.window), between(millisecond, 24 * hour), {},
     "The time that `max_restarts` looks back over."},
    {"supervision", "max_failures_without_progress", integer,
     FTRT_AT(supervision.max_failures_without_progress), positive_count, {},
     "Generations in a row without a new committed iteration before the run fails."},
    {"supervision", "backoff_initial", duration, FTRT_AT(supervision.backoff_initial),
     between(0, hour), {},
     "Pause before the second restart in a row without a new commit; it doubles each time, and "
     "varies by chance down to half. The first restart never waits."},
    {"supervision", "backoff_max", duration, FTRT_AT(supervision.backoff_max), between(0, hour), {},
     "The longest pause before a restart."},
    {"supervision", "poisoned_batch", choice, FTRT_AT(supervision.poisoned_batch), none,
     {"stop", "skip"},
     "What becomes of a batch whose rank dies in it again and again: `\"stop\"` ends the run with "
     "what it takes to reproduce it, in the run's folder; `\"skip\"` keeps that too, and has all "
     "ranks leave the batch out."},
    {"supervision", "poisoned_after", integer, FTRT_AT(supervision.poisoned_after), between(2, 1000),
     {},
     "So many deaths in a row of one rank in one iteration, of one cause, are the batch's fault."},
    {"supervision", "no_replacement", choice, FTRT_AT(supervision.no_replacement), none,
     {"stop", "wait"},
     "What becomes of a run whose workers cannot be started: `\"stop\"` ends it once "
     "`max_failures_without_progress` is used up; `\"wait\"` tries again for as long as it takes."},
    {"supervision", "start_timeout", duration, FTRT_AT(supervision.start_timeout), timeout, {},
     "How long a new worker may take to say hello."},
    {"supervision", "park_timeout", duration, FTRT_AT(supervision.park_timeout), timeout, {},
     "How long a survivor may take to leave a broken generation before it is killed."},
    {"supervision", "join_timeout", duration, FTRT_AT(supervision.join_timeout), timeout, {},
     "How long all ranks may take to enter a new generation."},
    {"supervision", "stop_timeout", duration, FTRT_AT(supervision.stop_timeout), timeout, {},
     "How long an orderly stop may take, its last checkpoint included; and for how long a final "
     "checkpoint that fails is tried again."},
    {"supervision", "grace_period", duration, FTRT_AT(supervision.grace_period), timeout, {},
     "How long workers outlive the command when it is killed."},
    {"supervision", "hang_detection", boolean, FTRT_AT(supervision.hang_detection), none, {},
     "Replace ranks whose training thread makes no progress."},
    {"supervision", "hang_floor", duration, FTRT_AT(supervision.hang_floor),
     between(200 * millisecond, 24 * hour), {},
     "The shortest time without progress that is called a hang, however fast the iterations are."},
    {"supervision", "hang_factor", number, FTRT_AT(supervision.hang_factor), between(2, 1e6), {},
     "A hang is so many times as long as the run's own iterations take of late, but at least "
     "`hang_floor`."},
    {"supervision", "hang_timeout_first", duration, FTRT_AT(supervision.hang_timeout_first),
     timeout, {},
     "The same until it is known how long the run's iterations take."},
    {"supervision", "hang_timeout_join", duration, FTRT_AT(supervision.hang_timeout_join),
     timeout, {},
     "How long a rank that enters a generation may make no progress."},
    {"supervision", "hang_timeout_load", duration, FTRT_AT(supervision.hang_timeout_load),
     timeout, {},
     "The same for one that loads a checkpoint on the way."},
    {"supervision", "hang_timeout_evaluate", duration, FTRT_AT(supervision.hang_timeout_evaluate),
     timeout, {},
     "The longest that an evaluation may go without progress (each batch of test samples is some); "
     "less once it is known how the run's evaluations get on: then `hang_factor` and `hang_floor` "
     "hold."},
    {"supervision", "hang_timeout_save", duration, FTRT_AT(supervision.hang_timeout_save),
     timeout, {},
     "The longest that a rank may take to copy its state aside for a checkpoint; less where the "
     "state is small: `hang_floor` and a second for each 100 MB. And the longest from its last "
     "iteration to its word that it has finished."},
    {"supervision", "core_dumps", boolean, FTRT_AT(supervision.core_dumps), none, {},
     "Let a crashing worker dump core; its loss is then noticed later."},
    {"supervision", "spares", integer, FTRT_AT(supervision.spares), between(0, 64), {},
     "Workers that wait, warm and without a rank, for one to be lost. Each needs a rank's memory, "
     "and so does a dead rank for 200 ms and a millisecond for each MiB of state after its death, "
     "beside its successor and the spare that is forked meanwhile."},
    {"supervision", "digest_every_iterations", integer,
     FTRT_AT(supervision.digest_every_iterations), count, {},
     "Iterations from one comparison of the ranks' states to the next, which finds wrong numbers. "
     "0: measured before the start, so that it costs less than 1 % of a step."},
    {"supervision", "on_straggler", choice, FTRT_AT(supervision.on_straggler), none,
     {"report", "replace"},
     "What becomes of a rank that computes much slower than the others: it is named in events and "
     "in `ftrt status`; or a new process takes its place as well, once, and again only where that "
     "has helped for a minute (then two, up to an hour). A replacement counts as a restart, and is "
     "left out where half of `max_restarts` is spent. docs/forensics.md has the rules."},
    {"supervision", "straggler_factor", number, FTRT_AT(supervision.straggler_factor),
     between(1.2, 1000), {},
     "A straggler's forward and backward take so many times as long as those of the other ranks "
     "(medians, for each micro-batch), and 5 ms longer, for three seconds or more; time without a "
     "processor does not count."},

    {"metrics", "tensorboard", boolean, FTRT_AT(metrics.tensorboard), none, {},
     "Write TensorBoard event files into the run's folder."},
    {"metrics", "every_iterations", integer, FTRT_AT(metrics.every_iterations), positive_count, {},
     "Iterations from one point of a series to the next."},

    {"expect", "status", choice, FTRT_AT(expect.status), none, {"completed", "stopped", "failed"},
     "How the run ends."},
    {"expect", "weights_digest", digest, FTRT_AT(expect.weights_digest), none,
     {"same_as_fault_free"},
     "The digest of the final weights. `\"same_as_fault_free\"`: that of the same run without its "
     "faults, which is then made, in the run's own folder."},
    {"expect", "max_lost_iterations", integer, FTRT_AT(expect.max_lost_iterations), count, {},
     "The most committed iterations that one rollback undoes."},
    {"expect", "min_recoveries", integer, FTRT_AT(expect.min_recoveries), count, {},
     "Lost ranks that were brought back, at least."},
    {"expect", "max_recoveries", integer, FTRT_AT(expect.max_recoveries), count, {},
     "Lost ranks that were brought back, at most."},
    {"expect", "min_actor_restarts", integer, FTRT_AT(expect.min_actor_restarts), count, {},
     "Actors that died and were started again, at least."},

    {chaos_table, "kind", choice, FTRT_IN(kind), none,
     {"kill", "stop", "kill_actor", "nan", "flip_bit", "slow", "kill_zygote", "kill_supervisor",
      "clock_jump", "poison"},
     "`\"kill\"`: SIGKILL of ranks' workers. `\"stop\"`: SIGSTOP, so that they hang. "
     "`\"kill_actor\"`: an actor of the control process. `\"nan\"`: a number of ranks becomes NaN. "
     "`\"flip_bit\"`: one bit of a number of ranks flips. `\"slow\"`: ranks pause before each "
     "micro-batch. `\"kill_zygote\"`: SIGKILL of the process that workers are forked from. "
     "`\"kill_supervisor\"`: SIGKILL of `ftrt` itself, which then resumes the run. "
     "`\"clock_jump\"`: the clocks that supervision goes by jump. `\"poison\"`: "
     "the batch of an iteration kills ranks whenever they compute it."},
    {chaos_table, "rank", rank, FTRT_ENTRY, none, {},
     "Kinds that strike workers: the rank. Short for `ranks` with one entry."},
    {chaos_table, "ranks", ranks, FTRT_ENTRY, none, {},
     "The same: these ranks at once, or `\"all\"`."},
    {chaos_table, "actor", actor, FTRT_IN(actor), none, {},
     "kill_actor: the actor that dies; its successor takes over what it knew."},
    {chaos_table, "target", choice, FTRT_IN(target), none, {"gradient", "parameter"},
     "nan, flip_bit: a `\"gradient\"` of that iteration (nan: before the reduction, so that all "
     "ranks get it; flip_bit: after it and after its norms were compared, so that this rank alone "
     "goes astray; a bit that flips before the reduction reaches all ranks alike, and nothing can "
     "find it), or a `\"parameter\"` after its commit."},
    {chaos_table, "in", choice, FTRT_IN(in), none,
     {"any", "all_reduce", "optimizer", "snapshot", "join", "evaluate", "start", "stop"},
     "kill, stop: the worker does it to itself in the midst of this, the first time once the entry "
     "is due. `\"optimizer\"`: its weights are new and not committed. `\"join\"`: it enters a "
     "generation. `\"start\"`: a new worker has just come up. `\"stop\"`: training is over, the final "
     "snapshot is not written. `\"any\"`: wherever it is."},
    {chaos_table, "delay", duration, FTRT_IN(delay), between(1000 * nanosecond, hour), {},
     "slow: the pause before each micro-batch."},
    {chaos_table, "iterations", integer, FTRT_IN(iterations), positive_count, {},
     "slow: for so many iterations; where it is not said, until the worker is replaced."},
    {chaos_table, "by", jump, FTRT_IN(by), between(-8760 * hour, 8760 * hour), {},
     "clock_jump: forward all clocks jump, as when a machine slept; backward (`\"-8h\"`) the wall "
     "clock alone, as when it is set."},
    {chaos_table, "at_iteration", integer, FTRT_IN(at_iteration), positive_count, {},
     "When: once, at this iteration; poison: each time that it is computed."},
    {chaos_table, "every_iterations", integer, FTRT_IN(every_iterations), positive_count, {},
     "When: each time so many iterations have passed."},
    {chaos_table, "every", every, FTRT_ENTRY, between(millisecond, 24 * hour), {},
     "When: each time so much time has passed (`\"10s\"`); an integer is `every_iterations`."},
    {chaos_table, "mtbf", duration, FTRT_IN(mtbf), between(millisecond, 24 * hour), {},
     "When: at random with this mean time between two faults (exponential, seeded)."},
    {chaos_table, "seed", integer, FTRT_IN(seed), between(0, largest), {},
     "Of what is random in this entry."},
    {chaos_table, "max_count", integer, FTRT_IN(max_count), count, {},
     "Stop after so many faults; 0: no limit."},
  };
  // clang-format on
  return rows;
}

#undef FTRT_AT
#undef FTRT_IN
#undef FTRT_ENTRY

}  // namespace

std::span<const table_spec> tables() {
  return table_rows;
}

std::span<const key_spec> keys() {
  return key_rows();
}

}  // namespace ftrt::grammar
