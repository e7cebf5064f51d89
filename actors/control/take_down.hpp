#pragma once

#include <caf/fwd.hpp>
#include <chrono>

namespace ftrt::actors {

// Asks an actor to leave and waits until it has, at most `patience`. False: it was told to die at
// once, and whoever takes a run down names it to people (C41). No actor: it has left. Blocks.
[[nodiscard]] bool take_down(caf::scoped_actor& self, const caf::actor& actor,
                             std::chrono::milliseconds patience);

}  // namespace ftrt::actors
