#include <actors/control/context.hpp>

namespace ftrt::actors {

void run_context::record(event::kind what, std::string subject, std::string text,
                         std::optional<rank_id> rank, iteration_id iteration) const {
  storage->record(event_of(what, std::move(subject), std::move(text), rank, iteration));
}

void run_context::record_now(event::kind what, std::string subject, std::string text,
                             std::optional<rank_id> rank, iteration_id iteration) const {
  storage->record_now(event_of(what, std::move(subject), std::move(text), rank, iteration));
}

event run_context::event_of(event::kind what, std::string subject, std::string text,
                            std::optional<rank_id> rank, iteration_id iteration) const {
  event happened;
  happened.what = what;
  happened.generation = board->current().generation.value();
  happened.iteration = iteration.value() != 0 ? iteration.value() : board->last_iteration();
  happened.rank = rank ? static_cast<std::int64_t>(rank->value()) : -1;
  happened.subject = std::move(subject);
  happened.text = std::move(text);
  return happened;
}

namespace {
constexpr auto trainer_category = caf::atom("trainer");
}

caf::error make_error(trainer_exit reason) {
  return caf::error{static_cast<std::uint8_t>(reason), trainer_category};
}

bool is_worker_lost(const caf::error& reason) {
  return reason.category() == trainer_category &&
         reason.code() == static_cast<std::uint8_t>(trainer_exit::worker_lost);
}

}  // namespace ftrt::actors
