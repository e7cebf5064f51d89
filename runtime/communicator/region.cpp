#include <runtime/communicator/region.hpp>

#include <algorithm>
#include <runtime/communicator/reduce_kernels.hpp>
#include <string>

namespace ftrt {
namespace shm {
namespace {

tl::unexpected<error> refuse(const bucket_region& region, const std::string& why) {
  return fail(error_code::invalid_argument, "region of " + std::to_string(region.count) + " x " +
                                                std::string(to_string(region.type)) + " at byte " +
                                                std::to_string(region.offset_bytes) + ": " + why);
}

}  // namespace

std::uint64_t bytes_of(const bucket_region& region) {
  return region.count * size_of(region.type);
}

result<void> validate(const bucket_region& region, std::uint64_t bucket_bytes) {
  if (kernel_for(region.type, reduce_op::sum) == nullptr) {
    return refuse(region, "expected F32, F64 or I64");
  }
  if (region.offset_bytes % tensor_alignment_bytes != 0) {
    return refuse(region, "expected an offset that is a multiple of " +
                              std::to_string(tensor_alignment_bytes));
  }
  const bool inside = region.offset_bytes <= bucket_bytes &&
                      region.count <= (bucket_bytes - region.offset_bytes) / size_of(region.type);
  if (!inside) {
    return refuse(region, "ends beyond the smallest bucket, which has " +
                              std::to_string(bucket_bytes) + " bytes");
  }
  return {};
}

bool overlap(const bucket_region& a, const bucket_region& b) {
  return a.offset_bytes < b.offset_bytes + bytes_of(b) &&
         b.offset_bytes < a.offset_bytes + bytes_of(a);
}

}  // namespace shm

region_chunk chunk_of(const bucket_region& region, rank_id rank, std::uint32_t world_size) {
  FTRT_ASSERT(rank.value() < world_size);
  const std::uint64_t per_line = tensor_alignment_bytes / size_of(region.type);
  const std::uint64_t lines = region.count / per_line + (region.count % per_line != 0 ? 1 : 0);
  // The first `extra` ranks take one line more.
  const std::uint64_t each = lines / world_size;
  const std::uint64_t extra = lines % world_size;
  const auto first_line = [&](std::uint64_t r) { return r * each + std::min(r, extra); };
  const auto element = [&](std::uint64_t line) {
    return line >= lines ? region.count : line * per_line;
  };
  return {element(first_line(rank.value())), element(first_line(rank.value() + std::uint64_t{1}))};
}

}  // namespace ftrt
