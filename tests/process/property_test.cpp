// Whatever is trained, however it is cut up, and whoever is killed at whatever iteration: the final
// weights are those of the run without faults. Scenarios are drawn from a seed, which a failure
// prints; FTRT_PROPERTY_SEED=N repeats it, and FTRT_PROPERTY_TRIALS=N draws more of them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/ftrt_process.hpp"

namespace ftrt::test {
namespace {

// Half a second of training without faults, about.
constexpr std::uint64_t iterations = 300;
constexpr std::uint64_t usual_trials = slowness > 1 ? 2 : 6;

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Draws one scenario. The same on every machine: no distribution of the standard library.
class drawn_scenario {
 public:
  explicit drawn_scenario(std::uint64_t seed) : random_{seed} {
    ranks_ = between(1, 4);
    describe_run();
    describe_model();
    describe_training();
    describe_saving();
    describe_faults();
  }

  // The faults are what tells the two runs apart.
  [[nodiscard]] std::string quiet() const { return quiet_.str(); }
  [[nodiscard]] std::string with_faults() const { return quiet_.str() + faults_.str(); }

 private:
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + random_() % (most - least + 1);
  }
  bool chance(std::uint64_t percent) { return random_() % 100 < percent; }
  template <class Value>
  Value one_of(std::vector<Value> values) {
    return values[random_() % values.size()];
  }

  void describe_run() {
    quiet_ << "[run]\nname = \"drawn\"\nseed = " << between(0, 1'000'000)
           << "\n[cluster]\nranks = " << ranks_ << '\n';
  }

  void describe_model() {
    const bool convolutional = chance(25);
    quiet_ << "[model]\n";
    if (convolutional) {
      quiet_ << "kind = \"cnn\"\nchannels = [4, 8]\n";
    } else {
      quiet_ << "kind = \"mlp\"\nlayers = [49, " << between(8, 96) << ", 10]\n";
    }
    quiet_ << "batch_norm = " << (convolutional && chance(60) ? "true" : "false")
           << "\ndropout = " << (chance(50) ? "0.2" : "0.0")
           << "\n[data]\nkind = \"synthetic\"\nsamples = " << between(300, 3000)
           << "\ntest_samples = " << between(20, 200)
           << "\nshuffle = " << (chance(80) ? "true" : "false")
           << "\nlast = " << one_of<std::string>({"\"keep\"", "\"drop\""}) << '\n';
  }

  // Windows that no number of micro-batches fills evenly, and micro-batches that ranks cannot share
  // out evenly, are as likely as others.
  void describe_training() {
    const auto micro_batch = between(3, 16);
    quiet_ << "[train]\nepochs = 1000\nmax_iterations = " << iterations
           << "\nmicro_batch = " << micro_batch
           << "\nglobal_batch = " << between(ranks_ * micro_batch, 3 * ranks_ * micro_batch)
           << "\namp = " << one_of<std::string>({"\"off\"", "\"bf16\"", "\"fp16\""})
           << "\nevaluate_every_epochs = " << between(0, 20) << '\n';
    if (chance(30)) quiet_ << "clip_norm = 0.5\n";
    if (chance(50)) {
      quiet_ << "optimizer = \"sgd\"\nlr = 0.05\nmomentum = 0.9\n"
             << "nesterov = " << (chance(50) ? "true" : "false") << '\n';
    } else {
      quiet_ << "optimizer = \"adamw\"\nlr = 0.001\nweight_decay = 0.01\n";
    }
  }

  void describe_saving() {
    quiet_ << "[checkpoint]\nevery_iterations = " << between(20, 120)
           << "\nsnapshot_every_iterations = " << one_of<std::uint64_t>({0, 5, 17})
           << "\n[supervision]\nspares = " << between(0, 2) << "\nmax_restarts = 100\n";
  }

  void describe_faults() {
    const auto count = between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      faults_ << "[[chaos]]\nat_iteration = " << between(1, iterations - 60) << '\n';
      const auto dice = between(0, 9);
      if (dice < 5) {
        faults_ << "kind = \"kill\"\nrank = " << between(0, ranks_ - 1) << '\n';
      } else if (dice < 7) {
        faults_ << "kind = \"kill\"\nranks = \"all\"\n";
      } else {
        faults_ << "kind = \"kill_actor\"\nactor = \""
                << one_of<std::string>(
                       {"trainer:0", "checkpoint", "metrics", "run_supervisor", "host_supervisor"})
                << "\"\n";
      }
    }
  }

  std::mt19937_64 random_;
  std::uint64_t ranks_ = 1;
  std::ostringstream quiet_;
  std::ostringstream faults_;
};

finished_run train_as_told(const std::filesystem::path& folder, const std::string& scenario) {
  const auto file = folder / "scenario.toml";
  std::ofstream{file} << scenario;
  return train(folder, file);
}

TEST(any_scenario, ends_with_the_weights_of_the_run_without_faults_whoever_is_killed) {
  const auto first = number_in_environment("FTRT_PROPERTY_SEED", std::random_device{}());
  const auto trials = number_in_environment("FTRT_PROPERTY_TRIALS", usual_trials);
  for (auto seed = first; seed < first + trials; ++seed) {
    const drawn_scenario drawn{seed};
    SCOPED_TRACE("repeat with FTRT_PROPERTY_SEED=" + std::to_string(seed) +
                 " FTRT_PROPERTY_TRIALS=1\n" + drawn.with_faults());
    const scratch_folder quiet_folder;
    const auto quiet = train_as_told(quiet_folder.path(), drawn.quiet());
    ASSERT_EQ(quiet.exit_code, 0) << quiet.err;
    ASSERT_EQ(quiet.summary["iterations"], iterations);
    ASSERT_EQ(quiet.summary["recoveries"].size(), 0U) << quiet.summary.dump(2);

    const scratch_folder folder;
    const auto done = train_as_told(folder.path(), drawn.with_faults());
    ASSERT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.summary["weights_digest"], quiet.summary["weights_digest"])
        << done.summary.dump(2);
    EXPECT_EQ(done.summary["iterations"], iterations);
    EXPECT_GE(done.summary["recoveries"].size() + done.summary["actor_restarts"].size(), 1U);
  }
}

}  // namespace
}  // namespace ftrt::test
