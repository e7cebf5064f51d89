#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <schemas/manifest.capnp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <string_view>
#include <unordered_set>

namespace ftrt::storage {
namespace {

constexpr std::string_view magic = "FTRTMAN1";
constexpr std::size_t digest_bytes = 16;
constexpr std::size_t head_bytes = 8 + digest_bytes;
constexpr std::size_t max_file_name = 200;
constexpr std::size_t max_run_id = 300;
constexpr std::size_t max_rank_dimensions = 64;

tl::unexpected<error> damaged(std::string what) {
  return fail(error_code::corrupt, std::move(what), "manifest");
}

std::string hex_of(std::span<const std::byte> raw) {
  std::string text;
  for (const auto byte : raw) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

int digit_of(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

std::array<std::byte, digest_bytes> raw_of(std::string_view hex) {
  std::array<std::byte, digest_bytes> raw{};
  for (std::size_t i = 0; i < digest_bytes; ++i) {
    raw[i] = static_cast<std::byte>(digit_of(hex[2 * i]) * 16 + digit_of(hex[2 * i + 1]));
  }
  return raw;
}

bool is_digest(std::string_view text) {
  return text.size() == 2 * digest_bytes && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A name that cannot lead out of the checkpoint's folder or hide in it.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= max_file_name && name.front() != '.' &&
         name != manifest_file && std::ranges::none_of(name, [](char c) {
           return c == '/' || static_cast<unsigned char>(c) < 0x20;
         });
}

void put(schemas::Tensor::Builder out, const tensor_spec& tensor) {
  out.setName(tensor.name);
  out.setType(std::string{to_string(tensor.type)});
  auto shape = out.initShape(static_cast<unsigned>(tensor.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, tensor.shape[i]);
  out.setSection(static_cast<schemas::Section>(tensor.section));
  out.setOffsetBytes(tensor.offset_bytes);
  out.setSizeBytes(tensor.size_bytes);
}

result<void> put(schemas::Shard::Builder out, const shard_entry& shard,
                 const state_layout& layout) {
  out.setFile(shard.file);
  out.setBytes(shard.bytes);
  out.setDigest(shard.digest);
  out.setPart(shard.part);
  out.setRank(shard.rank.value());
  out.setIncarnation(shard.incarnation.value());
  auto indices = out.initTensors(static_cast<unsigned>(shard.tensors.size()));
  for (unsigned i = 0; i < indices.size(); ++i) {
    const auto at = std::ranges::find(layout.tensors, shard.tensors[i].name, &tensor_spec::name);
    if (at == layout.tensors.end()) {
      return damaged("shard " + shard.file + " has tensor '" + shard.tensors[i].name +
                     "', which is not in the layout");
    }
    indices.set(i, static_cast<std::uint32_t>(at - layout.tensors.begin()));
  }
  return {};
}

std::string text_of(capnp::Text::Reader text) {
  return {text.cStr(), text.size()};
}

result<tensor_spec> get(schemas::Tensor::Reader in) {
  tensor_spec tensor;
  tensor.name = text_of(in.getName());
  auto type = parse_dtype(text_of(in.getType()));
  if (!type) return tl::unexpected(std::move(type.error()).with_context(tensor.name));
  tensor.type = *type;
  const auto shape = in.getShape();
  if (shape.size() > max_rank_dimensions) {
    return damaged("tensor '" + tensor.name + "' has " + std::to_string(shape.size()) +
                   " dimensions");
  }
  for (const auto extent : shape) tensor.shape.push_back(extent);
  if (in.getSection() > schemas::Section::SCALAR) {
    return fail(error_code::unsupported, "tensor '" + tensor.name + "' is of an unknown section");
  }
  tensor.section = static_cast<tensor_section>(in.getSection());
  tensor.offset_bytes = in.getOffsetBytes();
  tensor.size_bytes = in.getSizeBytes();
  return tensor;
}

// `taken` says which tensors of the layout already have a shard.
result<shard_entry> get(schemas::Shard::Reader in, const state_layout& layout,
                        std::vector<bool>& taken) {
  shard_entry shard;
  shard.file = text_of(in.getFile());
  if (!is_plain_name(shard.file)) return damaged("'" + shard.file + "' is not a plain file name");
  shard.bytes = in.getBytes();
  shard.digest = text_of(in.getDigest());
  if (!is_digest(shard.digest)) return damaged("shard " + shard.file + " has no xxh3-128 digest");
  shard.part = in.getPart();
  shard.rank = rank_id{in.getRank()};
  shard.incarnation = incarnation_id{in.getIncarnation()};
  for (const auto index : in.getTensors()) {
    if (index >= taken.size() || taken[index]) {
      return damaged("shard " + shard.file + " claims tensor number " + std::to_string(index) +
                     ", which does not exist or is in another shard");
    }
    taken[index] = true;
    shard.tensors.push_back(layout.tensors[index]);
  }
  return shard;
}

result<void> get_shards(schemas::Manifest::Reader in, checkpoint_manifest& manifest) {
  std::vector<bool> taken(manifest.layout.tensors.size(), false);
  std::unordered_set<std::string> files;
  std::unordered_set<std::uint32_t> parts;
  for (const auto shard : in.getShards()) {
    auto entry = get(shard, manifest.layout, taken);
    if (!entry) return tl::unexpected(entry.error());
    if (!files.insert(entry->file).second || !parts.insert(entry->part).second) {
      return damaged("two shards are both " + entry->file + " or part " +
                     std::to_string(entry->part));
    }
    manifest.shards.push_back(std::move(*entry));
  }
  const auto missing = std::ranges::find(taken, false);
  if (missing == taken.end()) return {};
  const auto index = static_cast<std::size_t>(missing - taken.begin());
  return damaged("tensor '" + manifest.layout.tensors[index].name + "' is in no shard");
}

result<checkpoint_manifest> get(schemas::Manifest::Reader in) {
  checkpoint_manifest manifest;
  manifest.run_id = text_of(in.getRunId());
  if (manifest.run_id.size() > max_run_id) return damaged("the run id is too long");
  manifest.branch = branch_id{in.getBranch()};
  manifest.generation = generation_id{in.getGeneration()};
  manifest.iteration = iteration_id{in.getIteration()};
  manifest.world_size = in.getWorldSize();
  manifest.created_ms = in.getCreatedMs();
  manifest.layout.arena_bytes = in.getArenaBytes();
  for (const auto tensor : in.getTensors()) {
    auto spec = get(tensor);
    if (!spec) return tl::unexpected(spec.error());
    manifest.layout.tensors.push_back(std::move(*spec));
  }
  if (auto ok = validate(manifest.layout); !ok) return tl::unexpected(ok.error());
  if (auto ok = get_shards(in, manifest); !ok) return tl::unexpected(ok.error());
  return manifest;
}

// The message alone, in memory that is aligned as Cap'n Proto wants it.
result<kj::Array<capnp::word>> unwrap(std::span<const std::byte> bytes) {
  if (bytes.size() < head_bytes || bytes.size() > max_manifest_bytes) {
    return damaged("a manifest of " + std::to_string(bytes.size()) + " bytes");
  }
  if (std::memcmp(bytes.data(), magic.data(), 7) != 0) return damaged("not a manifest of ftrt");
  if (std::to_integer<char>(bytes[7]) != magic[7]) {
    return fail(error_code::unsupported,
                "a manifest of another format than this build knows; "
                "use the version of ftrt that wrote it");
  }
  const auto body = bytes.subspan(head_bytes);
  const auto expected = hex_of(bytes.subspan(magic.size(), digest_bytes));
  const auto found = digest_of(body);
  if (expected != found) return damaged("digest " + found + ", expected " + expected);
  if (body.empty() || body.size() % sizeof(capnp::word) != 0) {
    return damaged("the message is not a whole number of words");
  }
  auto words = kj::heapArray<capnp::word>(body.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), body.data(), body.size());
  return words;
}

}  // namespace

result<std::vector<std::byte>> encode(const checkpoint_manifest& manifest) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<schemas::Manifest>();
  out.setRunId(manifest.run_id);
  out.setBranch(manifest.branch.value());
  out.setGeneration(manifest.generation.value());
  out.setIteration(manifest.iteration.value());
  out.setWorldSize(manifest.world_size);
  out.setCreatedMs(manifest.created_ms);
  out.setArenaBytes(manifest.layout.arena_bytes);
  auto tensors = out.initTensors(static_cast<unsigned>(manifest.layout.tensors.size()));
  for (unsigned i = 0; i < tensors.size(); ++i) put(tensors[i], manifest.layout.tensors[i]);
  auto shards = out.initShards(static_cast<unsigned>(manifest.shards.size()));
  for (unsigned i = 0; i < shards.size(); ++i) {
    if (auto ok = put(shards[i], manifest.shards[i], manifest.layout); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  const auto words = capnp::messageToFlatArray(message);
  const auto body = std::as_bytes(std::span{words.asBytes().begin(), words.asBytes().size()});
  const auto digest = raw_of(digest_of(body));
  std::vector<std::byte> bytes;
  bytes.reserve(head_bytes + body.size());
  for (const char c : magic) bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  if (bytes.size() > max_manifest_bytes) {
    return fail(error_code::unsupported,
                "a manifest of " + std::to_string(bytes.size()) + " bytes is beyond the limit");
  }
  return bytes;
}

result<checkpoint_manifest> decode_manifest(std::span<const std::byte> bytes) {
  const auto words = unwrap(bytes);
  if (!words) return tl::unexpected(words.error());
  try {
    capnp::ReaderOptions limits;
    // Every part may be read a few times; a message that points at itself must not be read forever.
    limits.traversalLimitInWords = 4 * words->size() + 1024;
    capnp::FlatArrayMessageReader reader{*words, limits};
    return get(reader.getRoot<schemas::Manifest>());
  } catch (const kj::Exception& failure) {
    return damaged(std::string{"not a well-formed message: "} + failure.getDescription().cStr());
  }
}

}  // namespace ftrt::storage
