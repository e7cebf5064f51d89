#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ftrt/scenario.hpp>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ftrt::grammar {

// The grammar of a scenario as data. The parser, the resolved list, to_toml(), docs/scenario.md and
// every "did you mean" are driven by this table; a key that is added here is known to all of them.
// Read-only after start-up; any thread.

enum class value_type : std::uint8_t {
  word,      // a name that is safe as a file name
  kind,      // a word; where it is one letter away from a built-in choice it is a typing error
  path,      // relative ones are resolved as `[data] path` and `[run] directory` say
  choice,    // one of `choices`, by position the enumerator
  integer,   // in `range`
  number,    // in `range`, finite; integers are fine
  boolean,   //
  duration,  // "200ms"; `range` in nanoseconds
  size,      // "4MiB"; `range` in bytes
  integers,  // a list, each in `range`
  rank,      // one rank
  ranks,     // a list of ranks, or "all"
  every,     // a duration, or a number of iterations
  jump,      // a duration, or one below zero: "-8h"; never zero
  digest,    // 32 hex digits, or one of `choices`
  actor,     // checked by the rules, where the world size is known
};

// Where a value lives in a scenario. One alternative for each C++ type that a key can have.
using slot = std::variant<std::string*, std::filesystem::path*, bool*, double*, std::uint32_t*,
                          std::uint64_t*, std::vector<std::int64_t>*, std::chrono::nanoseconds*,
                          std::optional<std::uint64_t>*, std::optional<std::chrono::nanoseconds>*,
                          device_kind*, amp_mode*, optimizer_kind*, schedule_kind*, last_window*,
                          poison_policy*, replacement_policy*, chaos_kind*, chaos_target*,
                          chaos_phase*, non_finite_policy*, straggler_policy*, chaos_entry*>;

struct limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is out of range
  bool high_open = false;  // high itself is out of range
};

struct key_spec {
  std::string_view table;  // "train"; "chaos" is the array of tables
  std::string_view name;   // "lr"
  value_type type;
  // `entry`: which chaos entry; ignored by the other tables.
  slot (*at)(scenario& values, std::size_t entry);
  limits range;
  std::vector<std::string_view> choices;
  std::string_view doc;
};

struct table_spec {
  std::string_view name;
  std::string_view doc;
};

inline constexpr std::string_view chaos_table = "chaos";
inline constexpr std::string_view expect_table = "expect";

// In the order of the documentation.
[[nodiscard]] std::span<const table_spec> tables();
[[nodiscard]] std::span<const key_spec> keys();

// nullptr: no such key.
[[nodiscard]] const key_spec* find_key(std::string_view table, std::string_view name);
[[nodiscard]] bool is_table(std::string_view name);
[[nodiscard]] std::vector<std::string_view> table_names();
[[nodiscard]] std::vector<std::string_view> key_names(std::string_view table);

// "train.lr"; `entry` matters to chaos only: "chaos[1].rank".
[[nodiscard]] std::string full_name(const key_spec& key, std::size_t entry = 0);

// What a message says that it expected: "an integer of at least 1", `one of "sgd", "adamw"`.
[[nodiscard]] std::string expected(const key_spec& key);

// Advice for a key that `table` does not have: the table it belongs to, else the nearest name, else
// all names of the table. `table` empty: the key stands outside all tables.
[[nodiscard]] std::string unknown_key_hint(std::string_view table, std::string_view name);
[[nodiscard]] std::string unknown_table_hint(std::string_view name);

}  // namespace ftrt::grammar
