#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <ftrt/types.hpp>
#include <functional>
#include <schemas/state_layout.hpp>
#include <span>
#include <storage/file_ops.hpp>
#include <string>
#include <vector>

namespace ftrt::storage {

// One file of a checkpoint, as its manifest has it.
struct shard_entry {
  std::string file;  // "part-00000-of-00002.safetensors", relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  std::string digest;  // xxh3-128 of the whole file
  std::uint32_t part = 0;
  rank_id rank;                // whose snapshot it came from ...
  incarnation_id incarnation;  // ... and which life of it
  std::vector<tensor_spec> tensors;
};

// schemas/manifest.capnp says what each field means.
struct checkpoint_manifest {
  std::string run_id;
  branch_id branch;
  generation_id generation;
  iteration_id iteration;
  std::uint32_t world_size = 0;
  std::int64_t created_ms = 0;  // Unix time
  state_layout layout;
  std::vector<shard_entry> shards;
};

[[nodiscard]] result<std::vector<std::byte>> encode(const checkpoint_manifest& manifest);
// Never trusts `bytes`; the layout is validated, shard files are plain names.
[[nodiscard]] result<checkpoint_manifest> decode_manifest(std::span<const std::byte> bytes);

// One part of the state on its way to disk.
struct checkpoint_part {
  std::uint32_t part = 0;
  rank_id rank;
  incarnation_id incarnation;
  std::span<const std::byte> content;  // the arena's bytes of part_of(layout, part, parts)
};

inline constexpr const char* manifest_file = "manifest.bin";
inline constexpr std::uint64_t max_manifest_bytes = std::uint64_t{64} << 20;

// Makes a checkpoint durable in `directory` (which must not hold one yet): every shard is written
// to a temporary name, fsynced and renamed, the folder fsynced, then the manifest the same way. The
// manifest's rename commits: before it there is no checkpoint, after it there is a whole one.
// `parts` are all parts of the layout, 0 .. parts.size()-1 in any order, those without a tensor
// too; `header` needs no shards. Fails with corrupt (a part of the wrong length), invalid_argument
// (a part is missing), refused (there is a checkpoint already), no_space, io; the folder is gone
// again then. Blocks for the disk; storage thread only.
[[nodiscard]] result<checkpoint_manifest> write_checkpoint(const std::filesystem::path& directory,
                                                           checkpoint_manifest header,
                                                           std::span<const checkpoint_part> parts,
                                                           file_ops& files = system_files());

// Reads and checks the manifest alone.
[[nodiscard]] result<checkpoint_manifest> read_manifest(const std::filesystem::path& directory);

// Checks every shard's length and digest. `corrupt` names the file, what was expected and found.
[[nodiscard]] result<checkpoint_manifest> verify_checkpoint(const std::filesystem::path& directory);

// Verifies, then copies every tensor into its place in `arena` by name. Strict: a missing, extra,
// mis-shaped or narrowed tensor is an error that names it (C19), and the arena is untouched then.
// corrupt: the checkpoint is damaged, try the one before. invalid_argument: it is whole, but of
// another model or optimizer. Needs memory for the whole state besides the arena meanwhile.
[[nodiscard]] result<checkpoint_manifest> load_checkpoint(const std::filesystem::path& directory,
                                                          const state_layout& layout,
                                                          std::span<std::byte> arena);

// Removes a checkpoint the safe way round: manifest, folder fsync, files.
// Fine where there is none.
[[nodiscard]] result<void> remove_checkpoint(const std::filesystem::path& directory,
                                             file_ops& files = system_files());

// Folders of committed checkpoints under `checkpoints`, in no order; leftovers of a crash (no
// manifest) are not listed.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(
    const std::filesystem::path& checkpoints);

// Removes what a crash left: temporaries, folders without a manifest. Only while nobody writes.
void remove_leftovers(const std::filesystem::path& checkpoints);

}  // namespace ftrt::storage
