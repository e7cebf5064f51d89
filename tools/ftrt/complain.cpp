#include "tools/ftrt/complain.hpp"

#include <cstring>
#include <string>

#include "tools/ftrt/text.hpp"

namespace ftrt::cli {

exit_code complain(output& errors, const error& failed) {
  errors.write("ftrt: " + printable(failed.describe()) + '\n');
  const bool usage =
      failed.code == error_code::invalid_argument || failed.code == error_code::not_found;
  return usage ? exit_code::refused : exit_code::failed;
}

exit_code complain(output& errors, const std::vector<diagnostic>& refused) {
  for (const auto& one : refused) errors.write(printable(one.describe()) + '\n');
  return exit_code::refused;
}

exit_code complain(output& errors, const start_error& not_started) {
  if (!not_started.refused.empty()) return complain(errors, not_started.refused);
  if (not_started.failed) {
    errors.write("ftrt: " + printable(not_started.failed->describe()) + '\n');
  }
  return not_started.nothing_begun ? exit_code::refused : exit_code::failed;
}

void locate(std::vector<diagnostic>& faults, const std::vector<resolved_value>& resolved) {
  for (auto& fault : faults) {
    if (!fault.file.empty()) continue;
    for (const auto& value : resolved) {
      const bool same = value.key == fault.key || value.key.starts_with(fault.key + '.');
      if (!same || value.origin == value_origin::default_value) continue;
      fault.file = value.where;  // "mnist.toml:12", or "--set"
      break;
    }
  }
}

exit_code check_written(const output& out, output& errors) {
  if (out.failure() == 0) return exit_code::done;
  errors.write(std::string("ftrt: cannot write the output: ") + std::strerror(out.failure()) +
               '\n');
  return exit_code::failed;
}

}  // namespace ftrt::cli
