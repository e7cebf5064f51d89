#include <algorithm>
#include <functional>
#include <numeric>
#include <runtime/data/dataset.hpp>
#include <runtime/data/mnist.hpp>
#include <runtime/data/synthetic.hpp>
#include <utility>

namespace ftrt::data {
namespace {

// The first n samples of another data set.
class limited final : public dataset {
 public:
  limited(std::unique_ptr<dataset> all, std::uint64_t limit)
      : all_(std::move(all)), size_(std::min(limit, all_->size())) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void gather(std::span<const std::uint32_t> ids, std::span<float> rows,
              std::span<std::int64_t> labels) const override {
    all_->gather(ids, rows, labels);
  }

 private:
  std::unique_ptr<dataset> all_;
  std::uint64_t size_;
};

diagnostic unknown_kind(const scenario& values) {
  return {{}, 0, "data.kind", "\"mnist\" or \"synthetic\"", '"' + values.data.kind + '"', {}};
}

// C32: fewer samples than one window can only divide by zero or train on nothing.
void check_enough(const scenario& values, const data_splits& splits,
                  std::vector<diagnostic>& faults) {
  const auto samples = splits.train->size();
  if (samples < values.train.global_batch) {
    faults.push_back({values.data.path.string(), 0, "train.global_batch",
                      "at most the number of training samples, " + std::to_string(samples),
                      std::to_string(values.train.global_batch) + " (" +
                          std::to_string(values.cluster.ranks) + " ranks share " +
                          std::to_string(values.micro_batches()) + " micro-batches of " +
                          std::to_string(values.train.micro_batch) + ")",
                      "lower train.global_batch, or raise data.limit or data.samples"});
  }
  if (splits.test->size() == 0) {
    faults.push_back(
        {values.data.path.string(), 0, "data", "at least one test sample", "none", {}});
  }
}

}  // namespace

std::int64_t sample_format::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

sample_format format_of(const scenario& values) {
  const auto& layers = values.model.layers;
  if (values.data.kind == "synthetic" && values.model.kind == "mlp" && layers.size() >= 2) {
    return {{layers.front()}, layers.back()};
  }
  return {{1, mnist_side, mnist_side}, mnist_classes};
}

checked<data_splits> open_data(const scenario& values) {
  std::vector<diagnostic> faults;
  data_splits splits;
  if (values.data.kind == "mnist") {
    auto opened = open_mnist(values.data.path);
    if (!opened) return tl::unexpected(std::move(opened.error()));
    splits = std::move(*opened);
  } else if (values.data.kind == "synthetic") {
    splits = make_synthetic(values);
  } else {
    return tl::unexpected(std::vector{unknown_kind(values)});
  }
  if (values.data.limit > 0) {
    splits.train = std::make_unique<limited>(std::move(splits.train), values.data.limit);
  }
  check_enough(values, splits, faults);
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return splits;
}

}  // namespace ftrt::data
