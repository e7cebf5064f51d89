#include <schemas/protocol/messages.hpp>

#include <array>
#include <cstring>
#include <schemas/protocol/wire.hpp>

namespace ftrt::protocol {
namespace {

#define FTRT_NAME(type, schema_name, tag) std::string_view{#type},
constexpr std::array names{FTRT_PROTOCOL_MESSAGES(FTRT_NAME)};
#undef FTRT_NAME
static_assert(names.size() == std::variant_size_v<message>);

}  // namespace

std::string_view name_of(const message& m) {
  return names[m.index()];
}

result<std::vector<std::byte>> encode_frame(const message& m) {
  auto body = encode(m);
  if (!body) return body;
  std::array<std::byte, frame_header_bytes> header{};
  for (std::size_t i = 0; i < header.size(); ++i) {
    header[i] = static_cast<std::byte>(body->size() >> (8 * i));
  }
  body->insert(body->begin(), header.begin(), header.end());
  return body;
}

result<std::size_t> decode_frame_length(std::span<const std::byte> header) {
  if (header.size() != frame_header_bytes) {
    return fail(error_code::invalid_argument, "a frame's header has " +
                                                  std::to_string(frame_header_bytes) +
                                                  " bytes, given " + std::to_string(header.size()));
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    length |= std::to_integer<std::size_t>(header[i]) << (8 * i);
  }
  if (length == 0 || length > max_message_bytes) {
    return fail(error_code::corrupt, "a frame says that it has " + std::to_string(length) +
                                         " bytes, expected 1 .. " +
                                         std::to_string(max_message_bytes));
  }
  return length;
}

}  // namespace ftrt::protocol
