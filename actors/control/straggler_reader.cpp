#include <actors/control/processor_use.hpp>
#include <actors/control/straggler_reader.hpp>
#include <cstdio>
#include <schemas/sample_order.hpp>

namespace ftrt::actors {
namespace {

recovery::straggler_limits limits_of(const scenario& values) {
  recovery::straggler_limits limits;
  limits.factor = values.supervision.straggler_factor;
  return limits;
}

// Of the micro-batches of a full window.
std::vector<std::uint64_t> shares_of(const scenario& values) {
  const auto ranks = values.cluster.ranks;
  std::vector<std::uint64_t> shares;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    shares.push_back(data::share_of(values.micro_batches(), rank_id{rank}, ranks).size());
  }
  return shares;
}

double to_ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

straggler_reader::straggler_reader(const run_context& context)
    : context_(&context),
      watch_(limits_of(context.values), shares_of(context.values)),
      rings_(context) {}

std::optional<recovery::straggler_watch::judgement> straggler_reader::look(
    generation_id generation, std::chrono::nanoseconds now) {
  watch_.begin(generation, now);
  const auto ranks = context_->values.cluster.ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) read(rank_id{rank});
  if (!watch_.is_due(now)) return std::nullopt;
  std::vector<std::optional<recovery::processor_use>> uses;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    uses.push_back(use_of(rank_id{rank}));
  }
  return watch_.judge(now, uses);
}

void straggler_reader::read(rank_id rank) {
  rings_.read(rank, [&](const storage::progress_record& record) {
    if (record.kind != storage::record_kind::iteration) return;
    watch_.add(rank, generation_id{record.generation}, iteration_id{record.iteration},
               std::chrono::nanoseconds{record.compute_ns});
  });
}

std::optional<recovery::processor_use> straggler_reader::use_of(rank_id rank) const {
  const auto worker = context_->host->worker(rank);
  if (!worker || worker->dead) return std::nullopt;
  return processor_use_of(*worker, storage::progress_reader{worker->progress}.view());
}

std::string describe(const recovery::straggler& slow) {
  char text[160];
  const double others = to_ms(slow.others);
  std::snprintf(text, sizeof text,
                "computes for %.1f ms an iteration, an equal share takes the others %.1f ms",
                to_ms(slow.compute), others);
  return text;
}

}  // namespace ftrt::actors
