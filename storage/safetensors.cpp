#include <algorithm>
#include <bit>
#include <cstring>
#include <ftrt/types.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <storage/safetensors.hpp>
#include <unordered_set>

namespace ftrt::storage {
namespace {

using json = nlohmann::json;

constexpr const char* metadata_key = "__metadata__";
constexpr std::size_t length_bytes = sizeof(std::uint64_t);
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

tl::unexpected<error> damaged(const std::string& what) {
  return fail(error_code::corrupt, what, "safetensors");
}

json describe(const tensor_spec& tensor, std::uint64_t begin) {
  return {{"dtype", to_string(tensor.type)},
          {"shape", tensor.shape},
          {"data_offsets", {begin, begin + tensor.size_bytes}}};
}

// JSON objects keep the last of two equal keys; here the second one is damage.
json parse_unique(std::string_view text, std::string& duplicate) {
  std::unordered_set<std::string> names;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      auto name = parsed.get<std::string>();
      if (!names.insert(name).second) duplicate = std::move(name);
    }
    return true;
  };
  return json::parse(text, watch, /*allow_exceptions=*/false);
}

result<std::uint64_t> dense_bytes(const safetensors_entry& entry) {
  std::uint64_t bytes = size_of(entry.type);
  for (const auto dimension : entry.shape) {
    const auto extent = static_cast<std::uint64_t>(dimension);
    if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent) {
      return damaged("tensor '" + entry.name + "' has an impossible shape");
    }
    bytes *= extent;
  }
  return bytes;
}

result<std::vector<std::int64_t>> parse_shape(const std::string& name, const json& shape) {
  std::vector<std::int64_t> extents;
  for (const auto& extent : shape) {
    if (!extent.is_number_unsigned() ||
        extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      return damaged("tensor '" + name + "' has an extent that is no natural number");
    }
    extents.push_back(static_cast<std::int64_t>(extent.get<std::uint64_t>()));
  }
  return extents;
}

// begin_bytes comes out relative to the data; the caller moves it.
result<safetensors_entry> parse_entry(const std::string& name, const json& value) {
  const auto is_offset = [](const json& n) { return n.is_number_unsigned(); };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return damaged("tensor '" + name + "' needs exactly dtype, shape and data_offsets");
  }
  const auto& type = value["dtype"];
  const auto& shape = value["shape"];
  const auto& offsets = value["data_offsets"];
  if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
      !std::ranges::all_of(offsets, is_offset)) {
    return damaged("tensor '" + name + "' has a field of the wrong type");
  }
  safetensors_entry entry;
  entry.name = name;
  auto parsed_type = parse_dtype(type.get<std::string>());
  if (!parsed_type) return tl::unexpected(std::move(parsed_type.error()).with_context(name));
  entry.type = *parsed_type;
  auto extents = parse_shape(name, shape);
  if (!extents) return tl::unexpected(extents.error());
  entry.shape = std::move(*extents);
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (end < begin) return damaged("tensor '" + name + "' ends before it begins");
  entry.begin_bytes = begin;
  entry.size_bytes = end - begin;
  auto expected = dense_bytes(entry);
  if (!expected) return tl::unexpected(expected.error());
  if (*expected != entry.size_bytes) {
    return damaged("tensor '" + name + "' has " + std::to_string(entry.size_bytes) +
                   " bytes, its shape and dtype say " + std::to_string(*expected));
  }
  return entry;
}

result<void> parse_metadata(const json& value, std::map<std::string, std::string>& metadata) {
  if (!value.is_object()) return damaged("__metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return damaged("__metadata__." + key + " is not a string");
    metadata.emplace(key, text.get<std::string>());
  }
  return {};
}

// Sorts, and checks that the tensors fill the data from end to end.
result<void> settle(std::vector<safetensors_entry>& entries, std::uint64_t data_begin,
                    std::uint64_t data_bytes) {
  std::ranges::sort(entries, {}, [](const safetensors_entry& entry) {
    return std::pair{entry.begin_bytes, entry.size_bytes};
  });
  std::uint64_t next = 0;
  for (auto& entry : entries) {
    if (entry.begin_bytes != next) {
      return damaged("tensor '" + entry.name + "' begins at " + std::to_string(entry.begin_bytes) +
                     ", expected " + std::to_string(next));
    }
    if (entry.size_bytes > data_bytes - next) {
      return damaged("tensor '" + entry.name + "' ends beyond the file");
    }
    next += entry.size_bytes;
    entry.begin_bytes += data_begin;
  }
  if (next == data_bytes) return {};
  return damaged(std::to_string(data_bytes - next) + " bytes after the last tensor");
}

result<std::string_view> header_text(std::span<const std::byte> file) {
  if (file.size() < length_bytes) {
    return damaged("a file of " + std::to_string(file.size()) + " bytes has no header");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_bytes);
  if (length > max_safetensors_header_bytes || length > file.size() - length_bytes) {
    return damaged("a header of " + std::to_string(length) + " bytes in a file of " +
                   std::to_string(file.size()));
  }
  const auto* begin = reinterpret_cast<const char*>(file.data()) + length_bytes;
  if (length == 0 || *begin != '{') return damaged("the header is not a JSON object");
  return std::string_view{begin, static_cast<std::size_t>(length)};
}

}  // namespace

std::vector<tensor_spec> safetensors_order(std::span<const tensor_spec> tensors) {
  std::vector<tensor_spec> order{tensors.begin(), tensors.end()};
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const tensor_spec& tensor) { return size_of(tensor.type); });
  return order;
}

result<std::vector<std::byte>> safetensors_header(
    std::span<const tensor_spec> tensors, const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  std::uint64_t begin = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name == metadata_key || header.contains(tensor.name)) {
      return damaged("two tensors cannot both be named '" + tensor.name + "'");
    }
    header[tensor.name] = describe(tensor, begin);
    begin += tensor.size_bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& failure) {
    return damaged(std::string{"a name is not valid UTF-8: "} + failure.what());
  }
  text.resize(align_up(text.size(), 8), ' ');
  const std::uint64_t length = text.size();
  if (length > max_safetensors_header_bytes) {
    return damaged("a header of " + std::to_string(length) + " bytes is beyond the limit");
  }
  std::vector<std::byte> bytes(length_bytes + text.size());
  std::memcpy(bytes.data(), &length, length_bytes);
  std::memcpy(bytes.data() + length_bytes, text.data(), text.size());
  return bytes;
}

result<safetensors_index> parse_safetensors(std::span<const std::byte> file) {
  const auto text = header_text(file);
  if (!text) return tl::unexpected(text.error());
  std::string duplicate;
  const auto header = parse_unique(*text, duplicate);
  if (!header.is_object()) return damaged("the header is not a JSON object");
  if (!duplicate.empty()) return damaged("tensor '" + duplicate + "' appears twice");
  safetensors_index index;
  for (const auto& [name, value] : header.items()) {
    if (name == metadata_key) {
      if (auto ok = parse_metadata(value, index.metadata); !ok) return tl::unexpected(ok.error());
      continue;
    }
    auto entry = parse_entry(name, value);
    if (!entry) return tl::unexpected(entry.error());
    index.entries.push_back(std::move(*entry));
  }
  const auto data_begin = length_bytes + text->size();
  if (auto ok = settle(index.entries, data_begin, file.size() - data_begin); !ok) {
    return tl::unexpected(ok.error());
  }
  return index;
}

}  // namespace ftrt::storage
