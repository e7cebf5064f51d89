#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <schemas/protocol/messages.hpp>
#include <string>

namespace ftrt::actors {

// What a worker is told to do to itself: the order for one rank that a fault comes to, where
// is_for_the_worker(fault). `number` is the order's own in its run.
[[nodiscard]] protocol::injure order_of(const chaos_entry& fault, rank_id rank,
                                        std::uint64_t number);

// "a NaN in a gradient of iteration 350"; "SIGKILL in optimizer of iteration 20".
[[nodiscard]] std::string describe(const protocol::injure& order);

}  // namespace ftrt::actors
