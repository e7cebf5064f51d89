#include <actors/control/history_rows.hpp>

#include <actors/host/log.hpp>
#include <utility>

namespace ftrt::actors {
namespace {

// Generations begin with restarts, which have a budget; so many are more than any run has.
constexpr std::size_t most_owed = 10'000;

// What the disk refuses today it may take tomorrow; what the catalog refuses, never.
bool may_yet_succeed(error_code code) {
  return code == error_code::no_space || code == error_code::busy || code == error_code::io;
}

}  // namespace

result<void> history_rows::settle(storage::catalog& catalog) {
  const auto before = owed_.size();
  while (!owed_.empty()) {
    auto written = owed_.front()(catalog);
    if (!written && may_yet_succeed(written.error().code)) return written;
    if (!written) host::log().warn("catalog: {}", written.error().describe());
    owed_.pop_front();
  }
  if (before > 0) host::log().warn("catalog: the history that the disk refused is recorded now");
  return {};
}

result<void> history_rows::write(storage::catalog& catalog, row next) {
  auto written = settle(catalog);
  if (written) written = next(catalog);
  const bool later = !written && may_yet_succeed(written.error().code);
  if (later && owed_.size() < most_owed) owed_.push_back(std::move(next));
  return written;
}

}  // namespace ftrt::actors
