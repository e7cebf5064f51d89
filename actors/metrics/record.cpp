#include <actors/metrics/record.hpp>

#include <actors/metrics/crc32c.hpp>
#include <cstdint>

namespace ftrt::metrics {
namespace {

template <class Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    out.push_back(static_cast<char>((value >> (8 * byte)) & 0xffu));
  }
}

}  // namespace

void append_record(std::string& out, std::string_view payload) {
  std::string length;
  append_little_endian(length, static_cast<std::uint64_t>(payload.size()));
  out += length;
  append_little_endian(out, masked_crc32c(length));
  out += payload;
  append_little_endian(out, masked_crc32c(payload));
}

}  // namespace ftrt::metrics
