#include <schemas/protocol/messages.hpp>

namespace ftrt::protocol {
namespace {

// A buffer larger than this is given back once it is empty.
constexpr std::size_t kept_capacity = 64u << 10;

}  // namespace

void frame_reader::feed(std::span<const std::byte> bytes) {
  if (failed_) return;  // nothing will be read any more, so nothing is kept
  // Frames that were cut out already make room first. Only when they are the larger part, so that a
  // byte is moved at most once on average.
  if (begin_ >= pending_.size() - begin_) {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
    if (pending_.empty() && pending_.capacity() > kept_capacity) pending_ = {};
  }
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

std::optional<result<message>> frame_reader::next() {
  if (failed_) return result<message>{tl::unexpected(*failed_)};
  const auto rest = std::span{pending_}.subspan(begin_);
  if (rest.size() < frame_header_bytes) return std::nullopt;
  const auto length = decode_frame_length(rest.first(frame_header_bytes));
  if (!length) return fail_for_good(length.error());
  if (rest.size() - frame_header_bytes < *length) return std::nullopt;
  begin_ += frame_header_bytes + *length;
  auto m = decode(rest.subspan(frame_header_bytes, *length));
  if (!m) return fail_for_good(m.error());
  return m;
}

result<message> frame_reader::fail_for_good(error why) {
  failed_ = std::move(why);
  pending_ = {};
  begin_ = 0;
  return tl::unexpected(*failed_);
}

}  // namespace ftrt::protocol
