#include <algorithm>
#include <cstring>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <storage/file_ops.hpp>
#include <storage/safetensors.hpp>
#include <unordered_map>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;
using content = std::vector<std::byte>;

// A mismatch of many tensors has one cause; the first few show it.
constexpr std::size_t named_faults = 8;

result<content> read_shard(const fs::path& directory, const shard_entry& shard) {
  auto bytes = read_file(directory / shard.file, shard.bytes);
  if (!bytes) {
    auto& why = bytes.error();
    // A manifest promised the file: that it is gone, or grew, is damage of the checkpoint.
    if (why.code == error_code::not_found) why.code = error_code::corrupt;
    return tl::unexpected(
        std::move(why).with_context("its manifest says " + std::to_string(shard.bytes) + " bytes"));
  }
  if (bytes->size() != shard.bytes) {
    return fail(error_code::corrupt, shard.file + " has " + std::to_string(bytes->size()) +
                                         " bytes, expected " + std::to_string(shard.bytes));
  }
  const auto found = digest_of(*bytes);
  if (found != shard.digest) {
    return fail(error_code::corrupt,
                shard.file + " has digest " + found + ", expected " + shard.digest);
  }
  return bytes;
}

bool same(const safetensors_entry& entry, const tensor_spec& tensor) {
  return entry.name == tensor.name && entry.type == tensor.type && entry.shape == tensor.shape;
}

// The file's own header must say what the manifest says of it.
result<safetensors_index> index_of(const shard_entry& shard, const content& bytes) {
  auto index = parse_safetensors(bytes);
  if (!index) return tl::unexpected(std::move(index.error()).with_context(shard.file));
  for (const auto& tensor : shard.tensors) {
    const auto at = std::ranges::find(index->entries, tensor.name, &safetensors_entry::name);
    if (at == index->entries.end() || !same(*at, tensor)) {
      return fail(error_code::corrupt, shard.file + " does not hold tensor '" + tensor.name +
                                           "' as its manifest describes it");
    }
  }
  if (index->entries.size() == shard.tensors.size()) return index;
  return fail(error_code::corrupt, shard.file + " holds tensors that its manifest does not know");
}

std::string describe(const tensor_spec& tensor) {
  std::string text{to_string(tensor.type)};
  text += '[';
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
  }
  return text + ']';
}

using tensors_by_name = std::unordered_map<std::string_view, const tensor_spec*>;

tensors_by_name by_name(const state_layout& layout) {
  tensors_by_name map;
  for (const auto& tensor : layout.tensors) map.emplace(tensor.name, &tensor);
  return map;
}

// Both directions: what the model wants and the checkpoint lacks, and the other way round (C19).
std::vector<std::string> differences(const state_layout& wanted, const state_layout& stored) {
  std::vector<std::string> faults;
  const auto stored_map = by_name(stored);
  for (const auto& tensor : wanted.tensors) {
    const auto at = stored_map.find(tensor.name);
    if (at == stored_map.end()) {
      faults.push_back("'" + tensor.name + "' is missing from the checkpoint");
    } else if (at->second->type != tensor.type || at->second->shape != tensor.shape) {
      faults.push_back("'" + tensor.name + "' is " + describe(*at->second) + ", expected " +
                       describe(tensor));
    }
  }
  const auto wanted_map = by_name(wanted);
  for (const auto& tensor : stored.tensors) {
    if (!wanted_map.contains(tensor.name)) {
      faults.push_back("'" + tensor.name + "' is in the checkpoint but not in the model");
    }
  }
  return faults;
}

result<void> check_same(const state_layout& wanted, const state_layout& stored) {
  const auto faults = differences(wanted, stored);
  if (faults.empty()) return {};
  std::string text = "the checkpoint is of another model or optimizer: ";
  for (std::size_t i = 0; i < std::min(faults.size(), named_faults); ++i) {
    text += (i > 0 ? "; " : "") + faults[i];
  }
  if (faults.size() > named_faults) {
    text += "; and " + std::to_string(faults.size() - named_faults) + " more";
  }
  return fail(error_code::invalid_argument, text);
}

struct loaded_shard {
  content bytes;
  safetensors_index index;
};

void copy_into(std::span<std::byte> arena, const tensors_by_name& places,
               const loaded_shard& shard) {
  for (const auto& entry : shard.index.entries) {
    const auto& place = *places.at(entry.name);
    FTRT_ASSERT(place.size_bytes == entry.size_bytes);
    if (entry.size_bytes == 0) continue;
    std::memcpy(arena.data() + place.offset_bytes, shard.bytes.data() + entry.begin_bytes,
                entry.size_bytes);
  }
}

}  // namespace

result<checkpoint_manifest> read_manifest(const fs::path& directory) {
  const auto bytes = read_file(directory / manifest_file, max_manifest_bytes);
  if (!bytes) return tl::unexpected(bytes.error());
  auto manifest = decode_manifest(*bytes);
  if (!manifest) {
    return tl::unexpected(std::move(manifest.error()).with_context(directory.string()));
  }
  return manifest;
}

result<checkpoint_manifest> verify_checkpoint(const fs::path& directory) {
  auto manifest = read_manifest(directory);
  if (!manifest) return manifest;
  for (const auto& shard : manifest->shards) {
    const auto bytes = read_shard(directory, shard);
    if (!bytes) return tl::unexpected(error{bytes.error()}.with_context(directory.string()));
    const auto index = index_of(shard, *bytes);
    if (!index) return tl::unexpected(error{index.error()}.with_context(directory.string()));
  }
  return manifest;
}

result<checkpoint_manifest> load_checkpoint(const fs::path& directory, const state_layout& layout,
                                            std::span<std::byte> arena) {
  if (auto ok = validate(layout); !ok) return tl::unexpected(ok.error());
  FTRT_ASSERT(arena.size() >= layout.arena_bytes);
  auto manifest = read_manifest(directory);
  if (!manifest) return manifest;
  const auto context = "while loading " + directory.string();
  if (auto ok = check_same(layout, manifest->layout); !ok) {
    return tl::unexpected(std::move(ok.error()).with_context(context));
  }
  // All shards are held and judged before the first byte of the arena changes.
  std::vector<loaded_shard> shards;
  for (const auto& shard : manifest->shards) {
    auto bytes = read_shard(directory, shard);
    if (!bytes) return tl::unexpected(std::move(bytes.error()).with_context(context));
    auto index = index_of(shard, *bytes);
    if (!index) return tl::unexpected(std::move(index.error()).with_context(context));
    shards.push_back({std::move(*bytes), std::move(*index)});
  }
  const auto places = by_name(layout);
  for (const auto& shard : shards) copy_into(arena, places, shard);
  return manifest;
}

}  // namespace ftrt::storage
