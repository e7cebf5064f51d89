#include <ftrt/error.hpp>
#include <runtime/data/synthetic.hpp>
#include <schemas/random.hpp>

namespace ftrt::data {
namespace {

constexpr std::uint64_t prototype_purpose = 0x70726f746fULL;
constexpr std::uint64_t label_purpose = 0x6c6162656cULL;
constexpr std::uint64_t noise_purpose = 0x6e6f697365ULL;

class synthetic final : public dataset {
 public:
  // `first_id` keeps the samples of training and test apart.
  synthetic(std::uint64_t seed, const sample_format& format, std::uint64_t size,
            std::uint64_t first_id)
      : seed_(seed), format_(format), size_(size), first_id_(first_id) {
    prototypes_.resize(static_cast<std::size_t>(format.classes * format.elements()));
    counter_random random{hash_of(seed, prototype_purpose)};
    for (auto& value : prototypes_) value = 2 * random.uniform() - 1;
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }

  void gather(std::span<const std::uint32_t> ids, std::span<float> rows,
              std::span<std::int64_t> labels) const override {
    const auto width = static_cast<std::size_t>(format_.elements());
    FTRT_ASSERT(rows.size() == ids.size() * width && labels.size() == ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      labels[i] = write(first_id_ + ids[i], rows.subspan(i * width, width));
    }
  }

 private:
  std::int64_t write(std::uint64_t id, std::span<float> row) const {
    const auto label =
        hash_of(seed_, id, label_purpose) % static_cast<std::uint64_t>(format_.classes);
    counter_random noise{hash_of(seed_, id, noise_purpose)};
    const float* prototype = prototypes_.data() + label * row.size();
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] = prototype[j] + 1.5F * (noise.uniform() - 0.5F);
    }
    return static_cast<std::int64_t>(label);
  }

  std::uint64_t seed_;
  sample_format format_;
  std::uint64_t size_;
  std::uint64_t first_id_;
  std::vector<float> prototypes_;
};

}  // namespace

data_splits make_synthetic(const scenario& values) {
  const auto format = format_of(values);
  const auto seed = values.run.seed;
  return {std::make_unique<synthetic>(seed, format, values.data.samples, 0),
          std::make_unique<synthetic>(seed, format, values.data.test_samples, 1ULL << 33)};
}

}  // namespace ftrt::data
