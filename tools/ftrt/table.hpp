#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftrt::cli {

enum class align : std::uint8_t { left, right };

struct column {
  std::string title;
  align side = align::left;
};

// Rows under titles, in columns as wide as their widest cell, two spaces apart. Cells are shown
// through printable(), so a row is one line whatever it holds. The last column is not padded.
//
//   iteration  state     size
//         400  verified  1.2 MiB
class table {
 public:
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add_row(std::vector<std::string> cells);
  [[nodiscard]] std::string render() const;

 private:
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ftrt::cli
