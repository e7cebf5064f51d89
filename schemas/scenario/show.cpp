#include <schemas/scenario/show.hpp>

#include <schemas/scenario/spell.hpp>

namespace ftrt::grammar {
namespace {

constexpr std::size_t longest_shown = 60;

std::string show_array(const toml::array& array) {
  std::string text = "[";
  for (const auto& element : array) {
    if (text.size() > 1) text += ", ";
    text += show(element);
    if (text.size() > longest_shown) return text.substr(0, longest_shown) + "...]";
  }
  return text + "]";
}

}  // namespace

std::string show(std::string_view text) {
  if (text.size() <= longest_shown) return quote(text);
  auto length = longest_shown;
  const auto continues = [&] { return (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80; };
  while (length > longest_shown - 4 && continues()) --length;  // cut between UTF-8 characters
  return quote(text.substr(0, length)) + "...";
}

std::string show(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return show(std::string_view{*text});
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return float_number(*number);
  if (const auto value = node.value_exact<bool>()) return *value ? "true" : "false";
  if (const auto* array = node.as_array()) {
    return array->is_array_of_tables() ? "a list of tables" : show_array(*array);
  }
  return node.is_table() ? "a table" : "a date or time";
}

}  // namespace ftrt::grammar
