#include <storage/catalog_impl.hpp>

namespace ftrt::storage {

result<std::vector<lost_checkpoint>> catalog::all_lost() {
  using rows = std::vector<lost_checkpoint>;
  const auto usable = usable_checkpoints();
  if (!usable) return tl::unexpected(usable.error());
  rows lost;
  for (const auto& candidate : *usable) {
    const auto verified = verify_checkpoint(candidate.directory);
    if (verified) return rows{};
    const auto& manifest = candidate.manifest;
    lost.push_back(
        {manifest.iteration, manifest.branch, candidate.directory, verified.error().describe()});
  }
  return guarded("looking for lost checkpoints", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT iteration, branch, folder, coalesce(why, 'for a reason that is not on record')"
        " FROM checkpoints WHERE superseded = 0 AND state = 'quarantined'"
        " ORDER BY iteration DESC, branch DESC");
    while (query->executeStep()) {
      lost.push_back({iteration_id{static_cast<std::uint64_t>(query->getColumn(0).getInt64())},
                      branch_id{query->getColumn(1).getUInt()},
                      impl_->directory / query->getColumn(2).getString(),
                      "quarantined: " + query->getColumn(3).getString()});
    }
    return std::move(lost);
  });
}

}  // namespace ftrt::storage
