#pragma once

#include <actors/control/chaos_ledger.hpp>
#include <actors/control/chaos_schedule.hpp>
#include <actors/control/context.hpp>
#include <cstdint>
#include <ftrt/scenario.hpp>
#include <ftrt/types.hpp>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <vector>

namespace ftrt::actors {

// What a worker is told to do to itself: the order for one rank that a fault comes to, where
// is_for_the_worker(fault); its number is given by standing_orders.
[[nodiscard]] protocol::injure order_of(const chaos_entry& fault, rank_id rank);

// "a NaN in a gradient of iteration 350"; "SIGKILL in optimizer of iteration 20".
[[nodiscard]] std::string describe(const protocol::injure& order);
// "SIGKILL of rank 1"; "SIGKILL in optimizer of iteration 20 is ordered of ranks 0, 1".
[[nodiscard]] std::string describe(const chaos_entry& fault);

// Orders that were given before the run was resumed, and that no worker had obeyed, stand again.
void repeat_orders(const run_context& context, const chaos_schedule& schedule,
                   const std::vector<fault_history>& history);

// Takes out of the standing orders what workers, dead ones too, say that they obey, and puts it on
// record; `at_once`: in the log before this returns, which blocks for the page cache. Who has
// killed or stopped itself by that is marked so in the host table: it did not die of anything it
// computed.
void settle_orders(const run_context& context, bool at_once = false);

}  // namespace ftrt::actors
