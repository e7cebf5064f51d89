#pragma once

#include <cstddef>
#include <cstdint>
#include <schemas/protocol/messages.hpp>
#include <string>
#include <type_traits>
#include <variant>

// What a field and a message may be at most: the numbers of protocol.capnp, and the one check that
// both sides run, the sender before it encodes and the receiver after it decoded. Any thread.
namespace ftrt::protocol {

inline constexpr std::size_t max_scenario_bytes = 1u << 20;
inline constexpr std::size_t max_path_bytes = 4096;
inline constexpr std::size_t max_text_bytes = 64u << 10;  // free text for people
inline constexpr std::size_t max_digest_bytes = 64;
inline constexpr std::size_t max_tensors = 100'000;
inline constexpr std::size_t max_tensor_name_bytes = 1024;
inline constexpr std::size_t max_dimensions = 32;
// Of one memory (arena, buckets, sync block): so small that sizes made from it never overflow.
inline constexpr std::uint64_t max_memory_bytes = std::uint64_t{1} << 44;
inline constexpr std::uint32_t max_world_size = 65'536;
inline constexpr std::uint32_t max_snapshot_slots = 256;
inline constexpr std::size_t max_diagnostics = 256;
inline constexpr std::size_t max_diagnostic_key_bytes = 1024;
inline constexpr std::size_t max_diagnostic_text_bytes = 2048;

// Largest encoding of the message type at `index` of the variant, in bytes. It bounds what a reader
// may traverse too, as no pointer is read twice.
[[nodiscard]] std::size_t max_encoded_bytes(std::size_t index);

// Which rule `m` breaks, as "field: expected ..., found ..."; empty where it breaks none.
[[nodiscard]] std::string violation(const message& m);

// Free text beyond its limit, cut at a character and with a marker in the place of the rest; more
// diagnostics than may be sent, with the last one saying so. Everything else stays as it is.
template <class T>
inline constexpr bool has_free_text =
    std::is_same_v<T, fork_failed> || std::is_same_v<T, join_failed> ||
    std::is_same_v<T, program_failed> || std::is_same_v<T, zygote_refused>;
void trim(fork_failed& m);
void trim(join_failed& m);
void trim(program_failed& m);
void trim(zygote_refused& m);

}  // namespace ftrt::protocol
