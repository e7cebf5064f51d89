#include <algorithm>
#include <array>
#include <ftrt/error.hpp>
#include <optional>
#include <runtime/data/idx.hpp>
#include <runtime/data/mnist.hpp>
#include <string>
#include <utility>

namespace ftrt::data {
namespace {

namespace fs = std::filesystem;

constexpr auto pixels = static_cast<std::size_t>(mnist_side * mnist_side);

// What each of the 256 pixel values becomes: mean 0, deviation 1.
std::array<float, 256> normalised_pixels() {
  std::array<float, 256> table{};
  for (std::size_t v = 0; v < table.size(); ++v) {
    table[v] = (static_cast<float>(v) / 255.0F - mnist_mean) / mnist_deviation;
  }
  return table;
}

class mnist final : public dataset {
 public:
  mnist(idx_file images, idx_file labels)
      : images_(std::move(images)), labels_(std::move(labels)), table_(normalised_pixels()) {}

  [[nodiscard]] std::uint64_t size() const override { return labels_.bytes().size(); }

  void gather(std::span<const std::uint32_t> ids, std::span<float> rows,
              std::span<std::int64_t> labels) const override {
    FTRT_ASSERT(rows.size() == ids.size() * pixels && labels.size() == ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      FTRT_ASSERT(ids[i] < size());
      labels[i] = labels_.bytes()[ids[i]];
      const auto image = images_.bytes().subspan(std::size_t{ids[i]} * pixels, pixels);
      std::ranges::transform(image, rows.begin() + static_cast<std::ptrdiff_t>(i * pixels),
                             [this](std::uint8_t v) { return table_[v]; });
    }
  }

 private:
  idx_file images_;
  idx_file labels_;
  std::array<float, 256> table_;
};

// The name that is there among the spellings in use; the usual one where none is.
fs::path find_file(const fs::path& folder, const std::string& stem, const std::string& kind) {
  std::error_code ignored;
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      auto path = folder / (stem + separator + kind + suffix);
      if (fs::exists(path, ignored)) return path;
    }
  }
  return folder / (stem + "-" + kind);
}

std::optional<diagnostic> check_images(const idx_file& images) {
  const auto& shape = images.shape();
  if (shape[1] == mnist_side && shape[2] == mnist_side) return {};
  return diagnostic{images.path().string(),
                    0,
                    "data.path",
                    "images of 28 x 28 pixels",
                    std::to_string(shape[1]) + " x " + std::to_string(shape[2]),
                    {}};
}

std::optional<diagnostic> check_labels(const idx_file& labels) {
  const auto bytes = labels.bytes();
  const auto bad = std::ranges::find_if(bytes, [](auto label) { return label >= mnist_classes; });
  if (bad == bytes.end()) return {};
  return diagnostic{
      labels.path().string(),
      0,
      "data.path",
      "labels from 0 to 9",
      "label " + std::to_string(*bad) + " at sample " + std::to_string(bad - bytes.begin()),
      {}};
}

std::optional<diagnostic> check_counts(const idx_file& images, const idx_file& labels) {
  if (images.shape()[0] == labels.shape()[0]) return {};
  return diagnostic{labels.path().string(),
                    0,
                    "data.path",
                    "as many labels as images, " + std::to_string(images.shape()[0]) + " (" +
                        images.path().filename().string() + ")",
                    std::to_string(labels.shape()[0]),
                    {}};
}

std::unique_ptr<dataset> open_split(const fs::path& folder, const std::string& stem,
                                    std::vector<diagnostic>& faults) {
  auto images = idx_file::open(find_file(folder, stem + "-images", "idx3-ubyte"), 3);
  auto labels = idx_file::open(find_file(folder, stem + "-labels", "idx1-ubyte"), 1);
  const auto before = faults.size();
  const auto note = [&faults](std::optional<diagnostic> found) {
    if (found) faults.push_back(std::move(*found));
  };
  note(images ? check_images(*images) : std::optional{images.error()});
  note(labels ? check_labels(*labels) : std::optional{labels.error()});
  if (images && labels) note(check_counts(*images, *labels));
  if (faults.size() != before) return nullptr;
  return std::make_unique<mnist>(std::move(*images), std::move(*labels));
}

}  // namespace

checked<data_splits> open_mnist(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return tl::unexpected(std::vector<diagnostic>{
        {folder.string(), 0, "data.path", "the folder of the four IDX files",
         fs::exists(folder, ignored) ? "not a folder" : "no such folder",
         "./tools/run fetches MNIST into data/mnist"}});
  }
  std::vector<diagnostic> faults;
  data_splits splits{open_split(folder, "train", faults), open_split(folder, "t10k", faults)};
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return splits;
}

}  // namespace ftrt::data
