#include <schemas/protocol/messages.hpp>
#include <tools/bench/micro/measure.hpp>

namespace ftrt::bench {
namespace {

// A message of the usual size, and the largest that a recovery needs.
protocol::message small_message() {
  protocol::snapshot_ready message;
  message.generation = generation_id{3};
  message.branch = branch_id{1};
  message.iteration = iteration_id{400};
  message.parts = 2;
  return message;
}

protocol::message scenario_message() {
  return protocol::zygote_configure{std::string(4096, 'x'), false};
}

void encode(benchmark::State& state, const protocol::message& message) {
  for (auto _ : state) benchmark::DoNotOptimize(must(protocol::encode(message)));
}

void decode(benchmark::State& state, const protocol::message& message) {
  const auto bytes = must(protocol::encode(message));
  for (auto _ : state) benchmark::DoNotOptimize(must(protocol::decode(bytes)));
}

// As the trainer actor has it: a frame arrives, a message leaves.
void read_a_frame(benchmark::State& state, const protocol::message& message) {
  const auto frame = must(protocol::encode_frame(message));
  protocol::frame_reader reader;
  for (auto _ : state) {
    reader.feed(frame);
    benchmark::DoNotOptimize(reader.next());
  }
}

BENCHMARK_CAPTURE(encode, snapshot_ready, small_message());
BENCHMARK_CAPTURE(encode, configure_4KiB, scenario_message());
BENCHMARK_CAPTURE(decode, snapshot_ready, small_message());
BENCHMARK_CAPTURE(decode, configure_4KiB, scenario_message());
BENCHMARK_CAPTURE(read_a_frame, snapshot_ready, small_message());

}  // namespace
}  // namespace ftrt::bench
