#include <cstring>
#include <storage/snapshot.hpp>
#include <tools/bench/micro/measure.hpp>

namespace ftrt::bench {
namespace {

// The only stall of a checkpoint: the training thread's copy into a slot.
void snapshot(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const auto memory = must(
      storage::shared_memory::create("ftrt-bench-snapshot", storage::snapshot_memory_bytes(bytes)));
  storage::snapshot_writer writer{memory, bytes};
  const std::vector<std::byte> arena(bytes, std::byte{7});
  std::vector<std::byte> copied(bytes);
  storage::snapshot_header header;
  header.generation = generation_id{1};
  header.parts = 1;
  header.length_bytes = bytes;
  const auto write = [&] {
    header.iteration = header.iteration.next();
    must(writer.write(header, arena));
  };
  // A slot's first write also faults its pages in: that is counted apart.
  const double first = seconds_of(write);
  for (std::uint32_t slot = 1; slot < storage::snapshot_slots; ++slot) write();
  beside_a_copy(state, write, [&] { std::memcpy(copied.data(), arena.data(), bytes); });
  state.counters["first_us"] = first * 1e6;
}

BENCHMARK(snapshot)->Arg(1 << 20)->Arg(20 << 20)->Arg(256 << 20)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace ftrt::bench
