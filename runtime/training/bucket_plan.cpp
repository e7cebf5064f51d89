#include <runtime/training/bucket_plan.hpp>

namespace ftrt::training {

bucket_plan plan_buckets(const state_map& map, std::uint64_t max_bytes) {
  bucket_plan plan;
  plan.bucket_of.resize(map.parameters.size());
  std::uint64_t end = map.parameter_bytes;  // of the open bucket
  for (std::size_t i = map.parameters.size(); i-- > 0;) {
    const std::uint64_t begin = map.parameters[i];
    const bool open = !plan.regions.empty() && end - begin <= max_bytes;
    if (!open) {
      if (!plan.regions.empty()) end = plan.regions.back().offset_bytes;
      plan.regions.push_back({});
      plan.parameters.push_back(0);
    }
    plan.regions.back() = {begin, (end - begin) / sizeof(float), dtype::f32};
    plan.bucket_of[i] = plan.regions.size() - 1;
    ++plan.parameters.back();
  }
  return plan;
}

}  // namespace ftrt::training
