#include <cstring>
#include <span>
#include <storage/digest.hpp>
#include <tools/bench/micro/measure.hpp>

namespace ftrt::bench {
namespace {

// What a join costs beyond the transfer: the digest of a whole state.
void digest(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> content(bytes, std::byte{7});
  std::vector<std::byte> copied(bytes);
  beside_a_copy(
      state, [&] { benchmark::DoNotOptimize(storage::digest_of(content)); },
      [&] { std::memcpy(copied.data(), content.data(), bytes); });
}

BENCHMARK(digest)->Arg(1 << 20)->Arg(20 << 20)->Arg(256 << 20)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace ftrt::bench
