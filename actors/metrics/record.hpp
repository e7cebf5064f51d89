#pragma once

#include <string>
#include <string_view>

namespace ftrt::metrics {

// Appends `payload` to `out` as one TFRecord: 8-byte little-endian length, masked crc32c of those
// 8 bytes, the payload, masked crc32c of the payload.
void append_record(std::string& out, std::string_view payload);

}  // namespace ftrt::metrics
