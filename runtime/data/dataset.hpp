#pragma once

#include <cstdint>
#include <ftrt/scenario.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ftrt::data {

// Labelled samples of one shape, by number. Immutable after it was opened, so that forked workers
// share its pages. No LibTorch here: rows are written where the caller says.
class dataset {
 public:
  virtual ~dataset() = default;

  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Writes sample ids[i] as row i of `rows` (ids.size() x elements floats, normalised) and its
  // class to labels[i]. Every id < size().
  virtual void gather(std::span<const std::uint32_t> ids, std::span<float> rows,
                      std::span<std::int64_t> labels) const = 0;
};

// What one sample of a scenario looks like; known before any file is opened.
struct sample_format {
  std::vector<std::int64_t> shape;  // {1, 28, 28}; {64}
  std::int64_t classes = 0;

  [[nodiscard]] std::int64_t elements() const;
};
[[nodiscard]] sample_format format_of(const scenario& values);

struct data_splits {
  std::unique_ptr<dataset> train;  // after data.limit
  std::unique_ptr<dataset> test;
};

// Opens and checks what [data] names. All faults of all files at once (C31).
[[nodiscard]] checked<data_splits> open_data(const scenario& values);

}  // namespace ftrt::data
