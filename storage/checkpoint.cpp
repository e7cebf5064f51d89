#include <algorithm>
#include <cstdio>
#include <map>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <storage/file_ops.hpp>
#include <storage/safetensors.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

// A file on its way to its final name, digested as it is written. Small pieces are gathered, since
// a state has many scalars.
class shard_writer {
 public:
  explicit shard_writer(std::unique_ptr<output_file> file) : file_(std::move(file)) {
    buffer_.reserve(buffer_bytes);
  }

  result<void> append(std::span<const std::byte> bytes) {
    digest_.update(bytes);
    bytes_ += bytes.size();
    if (buffer_.size() + bytes.size() > buffer_bytes) {
      if (auto ok = flush(); !ok) return ok;
    }
    if (bytes.size() >= buffer_bytes) return file_->write(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return {};
  }

  result<void> finish() {
    if (auto ok = flush(); !ok) return ok;
    return file_->sync();
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string digest() const { return digest_.hex(); }

 private:
  static constexpr std::size_t buffer_bytes = 1u << 20;

  result<void> flush() {
    if (buffer_.empty()) return {};
    auto ok = file_->write(buffer_);
    buffer_.clear();
    return ok;
  }

  std::unique_ptr<output_file> file_;
  std::vector<std::byte> buffer_;
  digest_stream digest_;
  std::uint64_t bytes_ = 0;
};

std::string shard_name(std::uint32_t part, std::size_t parts) {
  char name[64];
  std::snprintf(name, sizeof name, "part-%05u-of-%05zu.safetensors", part, parts);
  return name;
}

std::map<std::string, std::string> metadata_of(const checkpoint_manifest& manifest) {
  return {{"format", "ftrt-1"},
          {"run_id", manifest.run_id},
          {"branch", std::to_string(manifest.branch.value())},
          {"generation", std::to_string(manifest.generation.value())},
          {"iteration", std::to_string(manifest.iteration.value())}};
}

// Every part once, each as long as its tensors.
result<void> check_parts(const state_layout& layout, std::span<const checkpoint_part> parts) {
  std::vector<bool> seen(parts.size(), false);
  for (const auto& part : parts) {
    if (part.part >= parts.size() || seen[part.part]) {
      return fail(error_code::invalid_argument,
                  "part " + std::to_string(part.part) + " of " + std::to_string(parts.size()) +
                      " is there twice or too many, so another one is missing");
    }
    seen[part.part] = true;
    const auto expected = part_of(layout, part.part, static_cast<std::uint32_t>(parts.size()));
    const auto bytes = expected.end_bytes - expected.begin_bytes;
    if (part.content.size() != bytes) {
      return fail(error_code::corrupt, "part " + std::to_string(part.part) + " has " +
                                           std::to_string(part.content.size()) +
                                           " bytes, its tensors need " + std::to_string(bytes));
    }
  }
  if (parts.empty()) return fail(error_code::invalid_argument, "a checkpoint without any part");
  return {};
}

result<void> write_shard(file_ops& files, const fs::path& temporary,
                         const checkpoint_manifest& manifest, const checkpoint_part& part,
                         std::uint64_t begin_bytes, shard_entry& entry) {
  auto file = files.create(temporary);
  if (!file) return tl::unexpected(file.error());
  const auto header = safetensors_header(entry.tensors, metadata_of(manifest));
  if (!header) return tl::unexpected(header.error());
  shard_writer writer{std::move(*file)};
  if (auto ok = writer.append(*header); !ok) return ok;
  for (const auto& tensor : entry.tensors) {
    const auto bytes = part.content.subspan(tensor.offset_bytes - begin_bytes, tensor.size_bytes);
    if (auto ok = writer.append(bytes); !ok) return ok;
  }
  if (auto ok = writer.finish(); !ok) return ok;
  entry.bytes = writer.bytes();
  entry.digest = writer.digest();
  return {};
}

result<void> write_shards(file_ops& files, const fs::path& directory, checkpoint_manifest& manifest,
                          std::span<const checkpoint_part> parts) {
  for (const auto& part : parts) {
    const auto place =
        part_of(manifest.layout, part.part, static_cast<std::uint32_t>(parts.size()));
    if (place.tensor_count == 0) continue;
    const auto tensors = std::span{manifest.layout.tensors};
    shard_entry entry;
    entry.file = shard_name(part.part, parts.size());
    entry.part = part.part;
    entry.rank = part.rank;
    entry.incarnation = part.incarnation;
    entry.tensors = safetensors_order(tensors.subspan(place.first_tensor, place.tensor_count));
    const auto file = directory / entry.file;
    const auto temporary = temporary_name(file);
    if (auto ok = write_shard(files, temporary, manifest, part, place.begin_bytes, entry); !ok) {
      return ok;
    }
    if (auto ok = files.rename(temporary, file); !ok) return ok;
    manifest.shards.push_back(std::move(entry));
  }
  // The shards' names must be durable before a manifest can speak of them, and so must the folder
  // that they are in.
  if (auto ok = files.sync_directory(directory); !ok) return ok;
  return files.sync_directory(directory.parent_path());
}

// Everything in the folder, then the folder: for what never became a checkpoint, or no longer is.
result<void> remove_folder(file_ops& files, const fs::path& directory) {
  for (const auto& name : files.list(directory)) {
    if (auto ok = files.remove_file(directory / name); !ok) return ok;
  }
  return files.remove_directory(directory);
}

result<void> write_all(file_ops& files, const fs::path& directory, checkpoint_manifest& manifest,
                       std::span<const checkpoint_part> parts) {
  if (auto ok = files.make_directory(directory); !ok) return ok;
  if (auto ok = write_shards(files, directory, manifest, parts); !ok) return ok;
  const auto bytes = encode(manifest);
  if (!bytes) return tl::unexpected(bytes.error());
  return publish_file(files, directory / manifest_file, *bytes);
}

}  // namespace

result<checkpoint_manifest> write_checkpoint(const fs::path& directory, checkpoint_manifest header,
                                             std::span<const checkpoint_part> parts,
                                             file_ops& files) {
  if (auto ok = validate(header.layout); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_parts(header.layout, parts); !ok) return tl::unexpected(ok.error());
  const auto names = files.list(directory);
  if (std::ranges::find(names, manifest_file) != names.end()) {
    return fail(error_code::refused, directory.string() + " already holds a checkpoint");
  }
  header.shards.clear();
  auto ok = remove_folder(files, directory);
  if (ok) ok = write_all(files, directory, header, parts);
  if (ok) return header;
  // The manifest goes first here too: its rename may have been done and only its sync have failed.
  static_cast<void>(files.remove_file(directory / manifest_file));
  static_cast<void>(files.sync_directory(directory));
  static_cast<void>(remove_folder(files, directory));
  return tl::unexpected(std::move(ok.error()).with_context("while writing " + directory.string()));
}

result<void> remove_checkpoint(const fs::path& directory, file_ops& files) {
  if (auto ok = files.remove_file(directory / manifest_file); !ok) return ok;
  const auto synced = files.sync_directory(directory);
  if (!synced) {
    if (synced.error().code == error_code::not_found) return {};
    return synced;
  }
  return remove_folder(files, directory);
}

std::vector<fs::path> find_checkpoints(const fs::path& checkpoints) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& name : system_files().list(checkpoints)) {
    if (fs::is_regular_file(checkpoints / name / manifest_file, ignored)) {
      found.push_back(checkpoints / name);
    }
  }
  return found;
}

void remove_leftovers(const fs::path& checkpoints) {
  std::error_code ignored;
  for (const auto& name : system_files().list(checkpoints)) {
    const auto path = checkpoints / name;
    if (is_temporary(path) || is_gone(path / manifest_file)) {
      fs::remove_all(path, ignored);
      continue;
    }
    for (const auto& file : system_files().list(path)) {
      if (is_temporary(file)) fs::remove(path / file, ignored);
    }
  }
}

}  // namespace ftrt::storage
