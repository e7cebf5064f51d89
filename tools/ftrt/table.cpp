#include "tools/ftrt/table.hpp"

#include <algorithm>
#include <ftrt/error.hpp>

#include "tools/ftrt/text.hpp"

namespace ftrt::cli {
namespace {

std::string padded(const std::string& cell, std::size_t width, align side) {
  const std::string gap(width - display_width(cell), ' ');
  return side == align::left ? cell + gap : gap + cell;
}

}  // namespace

void table::add_row(std::vector<std::string> cells) {
  FTRT_ASSERT(cells.size() == columns_.size());
  for (auto& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string table::render() const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    widths.push_back(display_width(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += "  ";
      line += padded(cells[i], widths[i], columns_[i].side);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace ftrt::cli
