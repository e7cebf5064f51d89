#include <cmath>
#include <ftrt/summary.hpp>
#include <nlohmann/json.hpp>

namespace ftrt {
namespace {

using json = nlohmann::ordered_json;

// JSON has no NaN: a figure that was never measured is null.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json to_json_object(const recovery_record& r) {
  return {{"generation", r.generation},
          {"rank", r.rank},
          {"actor", r.actor},
          {"cause", r.cause},
          {"source", r.source},
          {"detected_ms", number(r.detected_ms)},
          {"resumed_ms", number(r.resumed_ms)},
          {"lost_iterations", r.lost_iterations},
          {"replacement", r.replacement},
          {"times",
           {{"detect_ms", number(r.times.detect_ms)},
            {"park_ms", number(r.times.park_ms)},
            {"spawn_ms", number(r.times.spawn_ms)},
            {"join_ms", number(r.times.join_ms)},
            {"first_step_ms", number(r.times.first_step_ms)},
            {"state_ms", number(r.times.state_ms)}}}};
}

json to_json_object(const expectation& e) {
  return {{"name", e.name}, {"expected", e.expected}, {"found", e.found}, {"met", e.met}};
}

}  // namespace

std::string to_json(const run_summary& s) {
  json recoveries = json::array();
  for (const auto& r : s.recoveries) recoveries.push_back(to_json_object(r));
  json restarts = json::array();
  for (const auto& r : s.actor_restarts) {
    restarts.push_back({{"actor", r.actor}, {"cause", r.cause}, {"ms", number(r.ms)}});
  }
  json expectations = json::array();
  for (const auto& e : s.expectations) expectations.push_back(to_json_object(e));
  const json object{
      {"run_id", s.run_id},
      {"status", s.status},
      {"iterations", s.iterations},
      {"optimizer_steps", s.optimizer_steps},
      {"epochs", number(s.epochs)},
      {"train_loss", number(s.train_loss)},
      {"test_accuracy", number(s.test_accuracy)},
      {"weights_digest", s.weights_digest},
      {"world_size", s.world_size},
      {"generations", s.generations},
      {"recoveries", recoveries},
      {"actor_restarts", restarts},
      {"left_out", s.left_out},
      {"checkpoints",
       {{"committed", s.checkpoints_committed}, {"last_iteration", s.last_checkpoint_iteration}}},
      {"samples_per_second", number(s.samples_per_second)},
      {"goodput", number(s.goodput)},
      {"wall_seconds", number(s.wall_seconds)},
      {"error", s.error},
      {"expectations", expectations}};
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace ftrt
