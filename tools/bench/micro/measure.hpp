#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ftrt/error.hpp>
#include <utility>
#include <vector>

// What the small benchmarks share. Each measures one thing of ftrt, and where a copy bounds it,
// that copy by turns in the same loop: the machine's drift then hits both alike.
namespace ftrt::bench {

template <class T>
T must(result<T> got) {
  if (got) return std::move(*got);
  std::fprintf(stderr, "bench_micro: %s\n", got.error().describe().c_str());
  std::exit(1);
}

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Runs `work` and `copy` by turns. The time of the benchmark is `work`'s; counters: `us` and
// `memcpy_us`, medians, and `x_memcpy`, the ratio.
template <class Work, class Copy>
void beside_a_copy(benchmark::State& state, Work&& work, Copy&& copy) {
  std::vector<double> own, plain;
  for (auto _ : state) {
    own.push_back(seconds_of(work));
    plain.push_back(seconds_of(copy));
    state.SetIterationTime(own.back());
  }
  state.counters["us"] = median(own) * 1e6;
  state.counters["memcpy_us"] = median(plain) * 1e6;
  state.counters["x_memcpy"] = median(own) / median(plain);
}

}  // namespace ftrt::bench
