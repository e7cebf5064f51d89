#include <actors/metrics/series.hpp>

namespace ftrt::metrics {
namespace {

std::vector<scalar> iteration_points(const storage::progress_record& record) {
  std::vector<scalar> points{{tags::train_loss, record.loss},
                             {tags::train_lr, record.lr},
                             {tags::train_grad_norm, record.grad_norm},
                             {tags::train_loss_scale, record.loss_scale},
                             {tags::generation, static_cast<double>(record.generation)}};
  if (record.step_ns > 0) {
    const double seconds = static_cast<double>(record.step_ns) * 1e-9;
    points.push_back({tags::step_ms, seconds * 1e3});
    points.push_back({tags::samples_per_second, static_cast<double>(record.samples) / seconds});
  }
  return points;
}

}  // namespace

std::vector<scalar> points_of(const storage::progress_record& record) {
  switch (record.kind) {
    case storage::record_kind::iteration:
      return iteration_points(record);
    case storage::record_kind::evaluation:
      return {{tags::test_loss, record.loss}, {tags::test_accuracy, record.accuracy}};
    case storage::record_kind::digest:
      break;  // for the supervisor
  }
  return {};
}

}  // namespace ftrt::metrics
