#pragma once

#include <gtest/gtest.h>

#include <ftrt/scenario.hpp>
#include <memory>
#include <runtime/training/trainer.hpp>
#include <storage/progress.hpp>
#include <storage/snapshot.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lone_communicator.hpp"

namespace ftrt::testing {

// 16 values, 4 classes, 52 samples in windows of 16: three full ones and a short one of 4 samples,
// which is one micro-batch of 4 (so with 2 ranks, one has none).
inline scenario tiny_mlp() {
  scenario s;
  s.run.seed = 7;
  s.cluster.ranks = 1;
  s.model.kind = "mlp";
  s.model.layers = {16, 12, 4};
  s.model.dropout = 0.2;
  s.data.kind = "synthetic";
  s.data.samples = 52;
  s.data.test_samples = 40;
  s.train.epochs = 3;
  s.train.global_batch = 16;
  s.train.micro_batch = 4;
  s.train.lr = 0.1;
  s.train.momentum = 0.9;
  s.train.bucket_bytes = 512;
  s.checkpoint.every_iterations = 5;
  return s;
}

inline scenario tiny_cnn() {
  scenario s = tiny_mlp();
  s.model.kind = "cnn";
  s.model.layers.clear();
  s.model.channels = {2, 3};
  s.model.batch_norm = true;
  s.train.epochs = 2;
  return s;
}

inline std::unique_ptr<training_program> make_program(const scenario& values) {
  auto made = training_program::create(values);
  if (!made) throw std::runtime_error(made.error().front().describe());
  return std::move(*made);
}

inline storage::shared_memory memory_of(const char* name, std::size_t bytes) {
  auto made = storage::shared_memory::create(name, bytes);
  if (!made) throw std::runtime_error(made.error().describe());
  return std::move(*made);
}

// The same memory, mapped a second time: control's end.
inline storage::shared_memory second_map(const storage::shared_memory& memory) {
  auto fd = memory.fd().duplicate();
  auto mapped = storage::shared_memory::map(std::move(*fd), memory.size(),
                                            storage::shared_memory::access::read_write);
  if (!mapped) throw std::runtime_error(mapped.error().describe());
  return std::move(*mapped);
}

// The memories of one worker; make() gives a worker_memory of them, as often as asked.
struct worker_memories {
  explicit worker_memories(const training_program& program)
      : progress(memory_of("progress", storage::progress_memory_bytes())),
        snapshots(
            memory_of("snapshots", storage::snapshot_memory_bytes(program.layout().arena_bytes))),
        bucket(memory_of("bucket", program.bucket_bytes())),
        state(memory_of("state", program.layout().arena_bytes)) {}

  [[nodiscard]] worker_memory make() const {
    return {second_map(progress), second_map(snapshots), second_map(bucket), second_map(state)};
  }

  storage::shared_memory progress, snapshots, bucket, state;
};

// One rank alone.
struct lone_rank {
  explicit lone_rank(training_program& p)
      : program(p),
        memories(p),
        worker(p, memories.make(), rank_id{0}, incarnation_id{1},
               {[this](const protocol::snapshot_ready& ready) { snapshots.push_back(ready); }}) {}

  result<protocol::joined> join(protocol::state_role role, iteration_id iteration,
                                const std::string& checkpoint = {},
                                const storage::shared_memory* state = nullptr) {
    ++generation;
    comm = std::make_shared<lone_communicator>(generation_id{generation});
    protocol::join request{generation_id{generation},
                           branch_id{1},
                           rank_id{0},
                           1,
                           role,
                           iteration,
                           rank_id{0},
                           checkpoint,
                           digest_every,
                           left_out};
    return worker.join(request, comm, state);
  }

  protocol::finished finish() {
    auto outcome = worker.train();
    if (auto* f = std::get_if<training_failed>(&outcome)) throw std::runtime_error(f->text);
    if (auto* i = std::get_if<training_interrupted>(&outcome)) {
      throw std::runtime_error(i->why.describe());
    }
    return std::get<training_finished>(outcome).report;
  }

  training_program& program;
  worker_memories memories;
  std::vector<protocol::snapshot_ready> snapshots;
  std::uint64_t generation = 0;
  std::uint64_t digest_every = 0;
  std::vector<iteration_id> left_out;  // of the next join
  std::shared_ptr<lone_communicator> comm;
  trainer worker;
};

// Trains a scenario from the start, alone and undisturbed.
inline protocol::finished train_alone(const scenario& values) {
  auto program = make_program(values);
  lone_rank rank{*program};
  if (auto joined = rank.join(protocol::state_role::initial, iteration_id{0}); !joined) {
    throw std::runtime_error(joined.error().describe());
  }
  return rank.finish();
}

}  // namespace ftrt::testing
