#pragma once

#include <actors/metrics/tensorboard_writer.hpp>
#include <storage/progress.hpp>
#include <string_view>
#include <vector>

namespace ftrt::metrics {

// The series of a run, as TensorBoard shows them. The step is always the iteration.
namespace tags {
inline constexpr std::string_view train_loss = "train/loss";
inline constexpr std::string_view train_lr = "train/lr";
inline constexpr std::string_view train_grad_norm = "train/grad_norm";
inline constexpr std::string_view train_loss_scale = "train/loss_scale";
inline constexpr std::string_view test_loss = "test/loss";
inline constexpr std::string_view test_accuracy = "test/accuracy";
inline constexpr std::string_view samples_per_second = "throughput/samples_per_second";
inline constexpr std::string_view step_ms = "time/step_ms";
inline constexpr std::string_view generation = "run/generation";
inline constexpr std::string_view recoveries = "run/recoveries";
inline constexpr std::string_view checkpoint_ms = "checkpoint/ms";
}  // namespace tags

// The points that one line of a rank's diary gives. `record` comes from another process: a kind
// that is none gives no points, and a step time of 0 no throughput.
[[nodiscard]] std::vector<scalar> points_of(const storage::progress_record& record);

}  // namespace ftrt::metrics
