#include <actors/host/clock.hpp>
#include <actors/host/log.hpp>
#include <actors/host/series_sink.hpp>

namespace ftrt::host {

series_sink::series_sink(const std::filesystem::path& folder, iteration_id first_step)
    : filter_(first_step) {
  auto opened = metrics::tensorboard_writer::open(folder, first_step);
  if (opened) {
    writer_.emplace(std::move(*opened));
  } else {
    complain(tl::unexpected(opened.error()));
  }
}

void series_sink::write(const std::vector<series_points>& batch) {
  if (!writer_) return;
  const auto now = wall_now();
  for (const auto& [generation, iteration, points] : batch) {
    std::vector<metrics::scalar> admitted;
    for (const auto& point : points) {
      if (filter_.admit(point.tag, generation, iteration)) admitted.push_back(point);
    }
    if (!admitted.empty()) complain(writer_->add(iteration, now, admitted));
  }
  complain(writer_->flush());
}

void series_sink::roll_back(generation_id generation, iteration_id first_step) {
  filter_.rollback(generation, first_step);
  if (writer_) complain(writer_->restart(first_step));
}

void series_sink::close() {
  if (writer_) complain(writer_->flush(metrics::tensorboard_writer::durability::disk));
  writer_.reset();
}

void series_sink::complain(const result<void>& outcome) {
  // Once: a full disk would fill the log as well.
  if (outcome || complained_) return;
  complained_ = true;
  host::log().warn("tensorboard: {}", outcome.error().describe());
}

}  // namespace ftrt::host
