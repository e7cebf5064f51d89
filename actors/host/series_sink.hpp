#pragma once

#include <actors/metrics/series_filter.hpp>
#include <actors/metrics/tensorboard_writer.hpp>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <optional>
#include <vector>

namespace ftrt::host {

// The points of one iteration.
struct series_points {
  generation_id generation;
  iteration_id iteration;
  std::vector<metrics::scalar> points;  // tags are string literals
};

// The run's TensorBoard folder: one writer and the filter before it. Outlives the metrics actor, so
// that one that is restarted goes on in the same file. Storage thread only; what goes wrong is
// logged and costs points, never the run.
class series_sink {
 public:
  // Opens the folder; `first_step` is the first iteration that will come.
  series_sink(const std::filesystem::path& folder, iteration_id first_step);

  void write(const std::vector<series_points>& batch);
  // Iterations from `first_step` on are done again, from `generation` on.
  void roll_back(generation_id generation, iteration_id first_step);
  void close();

 private:
  void complain(const result<void>& outcome);

  metrics::series_filter filter_;
  std::optional<metrics::tensorboard_writer> writer_;
  bool complained_ = false;
};

}  // namespace ftrt::host
