#pragma once

#include <cstdint>
#include <string_view>

namespace ftrt::metrics {

// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), RFC 3720 appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

// The form that TFRecord files store, so that a checksum over data with checksums in it stays good.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace ftrt::metrics
