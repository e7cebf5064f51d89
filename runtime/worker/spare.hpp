#pragma once

#include <ftrt/error.hpp>
#include <runtime/training/trainer.hpp>
#include <runtime/worker/source_memories.hpp>
#include <schemas/protocol/messages.hpp>

namespace ftrt::worker {

// The life of a spare until it becomes a rank. First it warms up: touches every page of `memory`
// and makes a step there, on a thread of its own at the lowest priority, so that those who train
// keep their cores (priority cannot be taken back without privileges, so that thread is given up
// afterwards). Then it says spare_ready on the lifeline and waits there for its identity, while
// `sources` makes ready what control says that it may have to copy from (expect_sources).
//
// Main thread of a forked child, which has no other thread before, and none but that of `sources`
// after, which has been told to stop and is not waited for. Blocks. Where the
// lifeline ends it does not return: control is gone, and nothing needs to be put away. An error
// means that this process can not become a worker.
[[nodiscard]] result<protocol::assign> wait_as_spare(training_program& program, int lifeline,
                                                     const worker_memory& memory,
                                                     source_memories& sources);

}  // namespace ftrt::worker
