#include <schemas/protocol/limits.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

namespace ftrt::protocol {
namespace {

constexpr std::size_t small = 4096;  // room for every message without lists and long texts

template <class T>
constexpr std::size_t max_bytes_of() {
  if constexpr (std::is_same_v<T, zygote_configure>) return max_scenario_bytes + small;
  if constexpr (std::is_same_v<T, zygote_ready>) return max_message_bytes;
  if constexpr (std::is_same_v<T, zygote_refused>) return 4u << 20;
  if constexpr (std::is_same_v<T, join>) {
    return max_path_bytes + max_left_out * sizeof(std::uint64_t) + small;
  }
  if constexpr (std::is_same_v<T, peer_lost> || std::is_same_v<T, not_finite>)
    return max_world_size * sizeof(std::uint32_t) + small;
  if constexpr (has_free_text<T>) return max_text_bytes + small;
  return small;
}

template <class... Ts>
constexpr auto table_of(const std::variant<Ts...>*) {
  return std::array{max_bytes_of<Ts>()...};
}
constexpr auto encoded_limits = table_of(static_cast<const message*>(nullptr));
static_assert(std::ranges::max(encoded_limits) == max_message_bytes);

std::string above(std::string_view field, std::uint64_t limit, std::uint64_t found) {
  return std::string{field} + ": expected at most " + std::to_string(limit) + ", found " +
         std::to_string(found);
}

std::string too_long(std::string_view field, const std::string& text, std::size_t limit) {
  if (text.size() <= limit) return {};
  return above(std::string{field} + " (bytes)", limit, text.size());
}

// A name that reaches the file system or a table: NUL would make it two different names.
std::string bad_name(std::string_view field, const std::string& text, std::size_t limit) {
  if (text.find('\0') != std::string::npos) {
    return std::string{field} + ": expected no NUL byte, found one";
  }
  return too_long(field, text, limit);
}

std::string bad_rank(std::string_view field, rank_id rank, std::uint32_t world_size) {
  return rank.value() < world_size ? "" : above(field, world_size - 1, rank.value());
}

std::string bad_count(std::string_view field, std::uint32_t count, std::uint32_t limit) {
  if (count >= 1 && count <= limit) return {};
  return std::string{field} + ": expected 1 .. " + std::to_string(limit) + ", found " +
         std::to_string(count);
}

std::string bad_pid(std::int32_t pid, std::int32_t least) {
  if (pid >= least) return {};
  return "pid: expected at least " + std::to_string(least) + ", found " + std::to_string(pid);
}

// The first complaint of several.
template <class... Rest>
std::string first_of(std::string complaint, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return complaint;
  } else {
    return complaint.empty() ? first_of(std::move(rest)...) : complaint;
  }
}

template <class T>
std::string check(const T&) {
  return {};
}

std::string check(const zygote_configure& m) {
  return too_long("scenario_toml", m.scenario_toml, max_scenario_bytes);
}

std::string check(const fork_worker& m) {
  return bad_rank("rank", m.rank, max_world_size);
}

std::string bad_memory(std::string_view field, std::uint64_t bytes) {
  return bytes <= max_memory_bytes ? "" : above(field, max_memory_bytes, bytes);
}

std::string check(const zygote_ready& m) {
  auto wrong = first_of(bad_memory("layout.arena_bytes", m.layout.arena_bytes),
                        bad_memory("bucket_bytes", m.bucket_bytes),
                        bad_memory("sync_block_bytes", m.sync_block_bytes));
  if (!wrong.empty()) return wrong;
  const auto& tensors = m.layout.tensors;
  if (tensors.size() > max_tensors) return above("layout.tensors", max_tensors, tensors.size());
  for (const auto& tensor : tensors) {
    wrong = bad_name("layout.tensors.name", tensor.name, max_tensor_name_bytes);
    if (!wrong.empty()) return wrong;
    if (tensor.shape.size() > max_dimensions) {
      return above("layout.tensors.shape of '" + tensor.name + "'", max_dimensions,
                   tensor.shape.size());
    }
    if (tensor.section > tensor_section::scalar) return "layout.tensors.section: unknown";
  }
  const auto valid = validate(m.layout);
  return valid ? std::string{} : "layout: " + valid.error().message;
}

std::string check(const zygote_refused& m) {
  if (m.diagnostics.size() > max_diagnostics) {
    return above("diagnostics", max_diagnostics, m.diagnostics.size());
  }
  for (const auto& d : m.diagnostics) {
    auto wrong = first_of(too_long("diagnostics.file", d.file, max_path_bytes),
                          too_long("diagnostics.key", d.key, max_diagnostic_key_bytes),
                          too_long("diagnostics.expected", d.expected, max_diagnostic_text_bytes),
                          too_long("diagnostics.found", d.found, max_diagnostic_text_bytes),
                          too_long("diagnostics.hint", d.hint, max_diagnostic_text_bytes));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string check(const worker_forked& m) {
  return first_of(bad_rank("rank", m.rank, max_world_size), bad_pid(m.pid, 1));
}

std::string check(const fork_failed& m) {
  return first_of(bad_rank("rank", m.rank, max_world_size),
                  too_long("text", m.text, max_text_bytes));
}

std::string check(const worker_exited& m) {
  return first_of(bad_rank("rank", m.rank, max_world_size), bad_pid(m.pid, 1));
}

std::string check(const expect_sources& m) {
  return bad_count("count", m.count, max_sources);
}

std::string check(const assign& m) {
  return bad_rank("rank", m.rank, max_world_size);
}

std::string bad_left_out(const join& m) {
  if (m.left_out.size() > max_left_out) return above("left_out", max_left_out, m.left_out.size());
  iteration_id last = m.iteration;
  for (const auto iteration : m.left_out) {
    if (iteration <= last) {
      return "left_out: expected ascending iterations after " + std::to_string(last.value()) +
             ", found " + std::to_string(iteration.value());
    }
    last = iteration;
  }
  return {};
}

std::string check(const join& m) {
  auto wrong = first_of(bad_count("world_size", m.world_size, max_world_size),
                        bad_name("checkpoint_directory", m.checkpoint_directory, max_path_bytes));
  if (!wrong.empty()) return wrong;
  if (wrong = bad_rank("rank", m.rank, m.world_size); !wrong.empty()) return wrong;
  if (wrong = bad_left_out(m); !wrong.empty()) return wrong;
  if (m.role > state_role::load_snapshot) return "role: unknown";
  if (m.role == state_role::load_checkpoint && !m.checkpoint_directory.starts_with('/')) {
    return "checkpoint_directory: expected an absolute path, found '" + m.checkpoint_directory +
           "'";
  }
  if (m.role != state_role::receive) return {};
  if (m.source == m.rank) return "source: expected another rank than the receiver itself";
  return bad_rank("source", m.source, m.world_size);
}

std::string check(const hello& m) {
  if (m.phase > worker_phase::finished) return "phase: unknown";
  return first_of(bad_rank("rank", m.rank, max_world_size), bad_pid(m.pid, 0));
}

std::string check(const parked& m) {
  if (m.prepared.value() == 0 || m.prepared > m.committed) return {};
  return "prepared: expected 0 or more than committed " + std::to_string(m.committed.value()) +
         ", found " + std::to_string(m.prepared.value());
}

std::string check(const joined& m) {
  return too_long("state_digest", m.state_digest, max_digest_bytes);
}

std::string check(const join_failed& m) {
  if (m.code < error_code::invalid_argument || m.code > error_code::internal) {
    return "code: unknown";
  }
  return too_long("text", m.text, max_text_bytes);
}

std::string bad_ranks(std::string_view field, const std::vector<rank_id>& ranks) {
  if (ranks.size() > max_world_size) return above(field, max_world_size, ranks.size());
  for (const auto rank : ranks) {
    if (auto wrong = bad_rank(field, rank, max_world_size); !wrong.empty()) return wrong;
  }
  return {};
}

std::string check(const peer_lost& m) {
  return bad_ranks("lost", m.lost);
}

std::string check(const injure& m) {
  constexpr std::uint64_t hour_ns = 3'600'000'000'000;
  if (m.kind > injury_kind::stop) return "kind: unknown";
  if (m.target > injury_target::parameter) return "target: unknown";
  if (m.phase > injury_phase::stop) return "phase: unknown";
  const bool in_phase = m.kind == injury_kind::kill || m.kind == injury_kind::stop;
  if (in_phase != (m.phase != injury_phase::none)) return "phase: does not fit the kind";
  return m.delay_ns > hour_ns ? above("delay_ns", hour_ns, m.delay_ns) : "";
}

std::string check(const not_finite& m) {
  return bad_ranks("ranks", m.ranks);
}

std::string check(const snapshot_ready& m) {
  if (auto wrong = bad_count("parts", m.parts, max_world_size); !wrong.empty()) return wrong;
  if (m.part >= m.parts) return above("part", m.parts - 1, m.part);
  if (m.slot >= max_snapshot_slots) return above("slot", max_snapshot_slots - 1, m.slot);
  return {};
}

std::string check(const finished& m) {
  return too_long("weights_digest", m.weights_digest, max_digest_bytes);
}

std::string check(const program_failed& m) {
  return too_long("text", m.text, max_text_bytes);
}

void cut(std::string& text, std::size_t limit) {
  if (text.size() <= limit) return;
  const auto marker = "... [cut, " + std::to_string(text.size()) + " bytes in all]";
  auto end = limit - marker.size();
  // Not inside a UTF-8 character: continuation bytes are 10xxxxxx.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  text.resize(end);
  text += marker;
}

}  // namespace

std::size_t max_encoded_bytes(std::size_t index) {
  FTRT_ASSERT(index < encoded_limits.size());
  return encoded_limits[index];
}

std::string violation(const message& m) {
  return std::visit([](const auto& one) { return check(one); }, m);
}

void trim(fork_failed& m) {
  cut(m.text, max_text_bytes);
}
void trim(join_failed& m) {
  cut(m.text, max_text_bytes);
}
void trim(program_failed& m) {
  cut(m.text, max_text_bytes);
}

void trim(zygote_refused& m) {
  auto& all = m.diagnostics;
  if (all.size() > max_diagnostics) {
    const auto left_out = all.size() - (max_diagnostics - 1);
    all.resize(max_diagnostics - 1);
    auto& last = all.emplace_back();
    last.expected = "no more faults";
    last.found = std::to_string(left_out) + " more";
  }
  for (auto& d : all) {
    cut(d.file, max_path_bytes);
    cut(d.key, max_diagnostic_key_bytes);
    for (auto* text : {&d.expected, &d.found, &d.hint}) cut(*text, max_diagnostic_text_bytes);
  }
}

}  // namespace ftrt::protocol
