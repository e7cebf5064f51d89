#include <algorithm>
#include <array>
#include <storage/digest.hpp>
#include <storage/xxh3_kernel.hpp>
#include <vector>

namespace ftrt::storage {
namespace {

const xxh3_kernel& kernel() {
#if defined(__x86_64__)
  static const xxh3_kernel& chosen = __builtin_cpu_supports("avx2") ? xxh3_avx2() : xxh3_portable();
  return chosen;
#else
  return xxh3_portable();
#endif
}

std::span<const std::byte> bytes_of(const tensor_spec& tensor, std::span<const std::byte> arena) {
  FTRT_ASSERT(tensor.offset_bytes <= arena.size() &&
              tensor.size_bytes <= arena.size() - tensor.offset_bytes);
  return arena.subspan(tensor.offset_bytes, tensor.size_bytes);
}

// "fc1.weight F32 [128,784]\n": no name can be mistaken for the end of another.
std::string heading(const tensor_spec& tensor) {
  auto text = std::to_string(tensor.name.size()) + ':' + tensor.name + ' ';
  text += to_string(tensor.type);
  text += " [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(tensor.shape[i]);
  }
  return text + "]\n";
}

}  // namespace

struct alignas(64) digest_stream::state {
  alignas(64) std::array<std::byte, xxh3_kernel::state_bytes> memory;
};

digest_stream::digest_stream() : state_(std::make_unique<state>()) {
  kernel().reset(state_->memory.data());
}

digest_stream::~digest_stream() = default;

void digest_stream::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) kernel().update(state_->memory.data(), bytes.data(), bytes.size());
}

void digest_stream::update(std::string_view text) {
  update(std::as_bytes(std::span{text.data(), text.size()}));
}

std::string digest_stream::hex() const {
  std::array<std::uint8_t, 16> raw{};
  kernel().digest(state_->memory.data(), raw.data());
  std::string text;
  for (const auto byte : raw) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

digest128 digest_stream::words() const {
  std::array<std::uint8_t, 16> raw{};
  kernel().digest(state_->memory.data(), raw.data());
  digest128 made;
  for (std::size_t i = 0; i < 8; ++i) {
    made.high = made.high << 8 | raw[i];
    made.low = made.low << 8 | raw[i + 8];
  }
  return made;
}

std::string digest_of(std::span<const std::byte> bytes) {
  digest_stream stream;
  stream.update(bytes);
  return stream.hex();
}

std::string weights_digest(const state_layout& layout, std::span<const std::byte> arena) {
  std::vector<const tensor_spec*> weights;
  for (const auto& tensor : layout.tensors) {
    if (tensor.section == tensor_section::parameter || tensor.section == tensor_section::buffer) {
      weights.push_back(&tensor);
    }
  }
  std::ranges::sort(weights, {}, [](const tensor_spec* tensor) { return tensor->name; });
  digest_stream stream;
  for (const auto* tensor : weights) {
    stream.update(heading(*tensor));
    stream.update(bytes_of(*tensor, arena));
  }
  return stream.hex();
}

std::string state_digest(const state_layout& layout, std::span<const std::byte> arena) {
  digest_stream stream;
  for (const auto& tensor : layout.tensors) stream.update(bytes_of(tensor, arena));
  return stream.hex();
}

digest128 state_digest_words(const state_layout& layout, std::span<const std::byte> arena) {
  digest_stream stream;
  for (const auto& tensor : layout.tensors) stream.update(bytes_of(tensor, arena));
  return stream.words();
}

}  // namespace ftrt::storage
