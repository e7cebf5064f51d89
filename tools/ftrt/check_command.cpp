#include "tools/ftrt/check_command.hpp"

#include <nlohmann/json.hpp>

#include "tools/ftrt/complain.hpp"
#include "tools/ftrt/table.hpp"

namespace ftrt::cli {
namespace {

using json = nlohmann::ordered_json;

const char* origin_name(value_origin origin) {
  switch (origin) {
    case value_origin::default_value:
      return "default";
    case value_origin::file:
      return "file";
    case value_origin::override_flag:
      return "override";
  }
  return "unknown";
}

std::string to_table(const std::vector<resolved_value>& values) {
  table shown({{"key"}, {"value"}, {"from"}});
  for (const auto& value : values) shown.add_row({value.key, value.value, value.where});
  return shown.render();
}

std::string to_json_text(const std::vector<resolved_value>& values) {
  json rows = json::array();
  for (const auto& value : values) {
    rows.push_back({{"key", value.key},
                    {"value", value.value},
                    {"origin", origin_name(value.origin)},
                    {"where", value.where}});
  }
  return rows.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace

exit_code check_scenario(const options& asked, const data_checker& check, output& out,
                         output& errors) {
  const auto loaded = load_scenario(asked.scenario, asked.overrides);
  if (!loaded) return complain(errors, loaded.error());
  out.write(asked.json ? to_json_text(loaded->resolved) : to_table(loaded->resolved));
  if (auto good = check(loaded->values, {}); !good) {
    locate(good.error().refused, loaded->resolved);
    return complain(errors, good.error());
  }
  if (!asked.json) out.write("\nThe scenario and its data are good to run.\n");
  return check_written(out, errors);
}

}  // namespace ftrt::cli
