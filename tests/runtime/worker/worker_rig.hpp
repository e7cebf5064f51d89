#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tests/runtime/worker/mini_control.hpp>
#include <tests/support/environment.hpp>
#include <vector>

// What the process tests share: the program, two ranks that train, and the digest to compare with.
namespace ftrt::testing {

inline std::filesystem::path worker_program() {
  return test::programs() / "ftrt-worker";
}

inline const std::vector<mini_control::part> both_initial{{0, protocol::state_role::initial, 0, 0},
                                                          {1, protocol::state_role::initial, 0, 0}};

inline void fork_two_ranks(mini_control& control, const scenario& values) {
  control.start(values);
  control.fork(0);
  control.fork(1);
}

inline void start_two_ranks(mini_control& control, const scenario& values) {
  fork_two_ranks(control, values);
  control.join_and_train(1, both_initial);
}

// Both ranks' finish, which must agree.
inline protocol::finished finish(mini_control& control) {
  const auto first = control.expect<protocol::finished>(0);
  const auto second = control.expect<protocol::finished>(1);
  EXPECT_EQ(first.weights_digest, second.weights_digest);
  EXPECT_EQ(first.iteration, second.iteration);
  return first;
}

inline void dismiss(mini_control& control, std::initializer_list<std::uint32_t> ranks) {
  for (const auto rank : ranks) {
    control.send(rank, protocol::exit_worker{});
    EXPECT_TRUE(test::ends_within(control.at(rank).pidfd, std::chrono::seconds{10}))
        << "rank " << rank;
  }
}

// Of small_scenario() on two ranks.
inline const std::string& fault_free_digest() {
  static const std::string digest = [] {
    mini_control control{worker_program()};
    start_two_ranks(control, small_scenario());
    return finish(control).weights_digest;
  }();
  return digest;
}

}  // namespace ftrt::testing
