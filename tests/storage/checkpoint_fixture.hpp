#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <storage/file_ops.hpp>
#include <tests/storage/support.hpp>

namespace ftrt::storage::testing {

// What control would say of iteration `iteration`, whose state is filled_arena(layout, iteration).
inline checkpoint_manifest header_of(std::uint64_t iteration, std::uint32_t branch = 1) {
  checkpoint_manifest header;
  header.run_id = "run-1";
  header.branch = branch_id{branch};
  header.generation = generation_id{branch};
  header.iteration = iteration_id{iteration};
  header.world_size = 2;
  header.created_ms = 1'700'000'000'000 + static_cast<std::int64_t>(iteration);
  header.layout = small_layout();
  return header;
}

inline std::vector<checkpoint_part> parts_of(const state_layout& layout,
                                             std::span<const std::byte> arena,
                                             std::uint32_t parts) {
  std::vector<checkpoint_part> found;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto place = part_of(layout, part, parts);
    checkpoint_part piece;
    piece.part = part;
    piece.rank = rank_id{part};
    piece.incarnation = incarnation_id{1};
    piece.content = arena.subspan(place.begin_bytes, place.end_bytes - place.begin_bytes);
    found.push_back(piece);
  }
  return found;
}

inline result<checkpoint_manifest> write(const std::filesystem::path& directory,
                                         std::uint64_t iteration, std::uint32_t parts = 2,
                                         file_ops& files = system_files(),
                                         std::uint32_t branch = 1) {
  const auto header = header_of(iteration, branch);
  const auto arena = filled_arena(header.layout, iteration);
  return write_checkpoint(directory, header, parts_of(header.layout, arena, parts), files);
}

// Makes the digest in a manifest's head that of its message, as a forger would.
inline void sign_manifest(std::vector<std::byte>& bytes) {
  const auto hex = digest_of(std::span{bytes}.subspan(24));
  for (std::size_t i = 0; i < 16; ++i) {
    bytes[8 + i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
}

// Overwrites one byte of a file, or appends where `at` is its size.
inline void poke(const std::filesystem::path& file, std::uint64_t at, std::byte value) {
  std::FILE* stream = std::fopen(file.c_str(), "r+b");
  if (stream == nullptr) std::abort();
  std::fseek(stream, static_cast<long>(at), SEEK_SET);
  std::fputc(std::to_integer<int>(value), stream);
  std::fclose(stream);
}

}  // namespace ftrt::storage::testing
