#include <algorithm>
#include <storage/catalog_impl.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

bool parse_state(std::string_view text, checkpoint_state& state) {
  for (const auto candidate :
       {checkpoint_state::committed, checkpoint_state::verified, checkpoint_state::quarantined}) {
    if (to_string(candidate) == text) {
      state = candidate;
      return true;
    }
  }
  return false;
}

// Columns: manifest, state, folder. A row that cannot be read any more is as good as none: the
// manifest on disk is the truth, and rebuilding finds it.
std::vector<catalog_checkpoint> read_checkpoints(SQLite::Statement& rows, const fs::path& run) {
  std::vector<catalog_checkpoint> found;
  while (rows.executeStep()) {
    const auto blob = rows.getColumn(0);
    const auto* begin = static_cast<const std::byte*>(blob.getBlob());
    auto manifest = decode_manifest({begin, static_cast<std::size_t>(blob.getBytes())});
    catalog_checkpoint checkpoint;
    if (!manifest || !parse_state(rows.getColumn(1).getString(), checkpoint.state)) continue;
    checkpoint.manifest = std::move(*manifest);
    checkpoint.directory = run / rows.getColumn(2).getString();
    found.push_back(std::move(checkpoint));
  }
  return found;
}

std::uint64_t unsigned_column(SQLite::Statement& row, int index) {
  return static_cast<std::uint64_t>(row.getColumn(index).getInt64());
}

}  // namespace

std::string_view to_string(checkpoint_state state) {
  switch (state) {
    case checkpoint_state::committed:
      return "committed";
    case checkpoint_state::verified:
      return "verified";
    case checkpoint_state::quarantined:
      return "quarantined";
  }
  return "unknown";
}

std::string folder_name(const fs::path& run_directory, const fs::path& folder) {
  std::error_code ignored;
  const auto absolute = fs::absolute(folder, ignored).lexically_normal();
  const auto relative = absolute.lexically_relative(run_directory);
  const bool inside = !relative.empty() && *relative.begin() != "..";
  return inside ? relative.string() : absolute.string();
}

result<void> insert_checkpoint(catalog_database& database, const checkpoint_manifest& manifest,
                               const std::string& folder, checkpoint_state state, bool superseded) {
  const auto encoded = encode(manifest);
  if (!encoded) return tl::unexpected(encoded.error());
  std::uint64_t bytes = 0;
  for (const auto& shard : manifest.shards) bytes += shard.bytes;
  database.execute("DELETE FROM checkpoints WHERE branch = ?1 AND iteration = ?2",
                   manifest.branch.value(), manifest.iteration.value());
  database.execute(
      "INSERT INTO checkpoints (branch, iteration, generation, state, superseded, world_size,"
      " bytes, created_ms, folder, manifest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
      manifest.branch.value(), manifest.iteration.value(), manifest.generation.value(),
      std::string{to_string(state)}, superseded ? 1 : 0, manifest.world_size, bytes,
      manifest.created_ms, folder, *encoded);
  for (const auto& shard : manifest.shards) {
    database.execute(
        "INSERT INTO shards (branch, iteration, part, file, bytes, digest, rank, incarnation)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        manifest.branch.value(), manifest.iteration.value(), shard.part, shard.file, shard.bytes,
        shard.digest, shard.rank.value(), shard.incarnation.value());
  }
  return {};
}

result<std::vector<catalog_checkpoint>> catalog::usable_checkpoints() {
  using rows = std::vector<catalog_checkpoint>;
  return guarded("looking for usable checkpoints", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT manifest, state, folder FROM checkpoints"
        " WHERE superseded = 0 AND state <> 'quarantined' ORDER BY iteration DESC, branch DESC");
    return read_checkpoints(*query, impl_->directory);
  });
}

result<std::vector<catalog_checkpoint>> catalog::prunable(std::uint64_t keep_last) {
  using rows = std::vector<catalog_checkpoint>;
  if (keep_last == 0) {
    return fail(error_code::invalid_argument,
                "keep_last = 0 would delete every checkpoint; keep at least 1");
  }
  const auto usable = usable_checkpoints();
  if (!usable) return usable;
  const auto verified =
      std::ranges::find(*usable, checkpoint_state::verified, &catalog_checkpoint::state);
  rows found;
  for (auto at = usable->begin(); at != usable->end(); ++at) {
    const bool kept = static_cast<std::uint64_t>(at - usable->begin()) < keep_last;
    if (!kept && at != verified) found.push_back(*at);
  }
  // Nothing of an abandoned branch can be loaded again. Damaged ones of this lineage stay to be
  // looked at for as long as their neighbours do.
  const auto horizon = usable->empty()
                           ? 0
                           : (*usable)[std::min<std::size_t>(keep_last, usable->size()) - 1]
                                 .manifest.iteration.value();
  return guarded("looking for prunable checkpoints", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT manifest, state, folder FROM checkpoints"
        " WHERE superseded = 1 OR (state = 'quarantined' AND iteration < ?1)"
        " ORDER BY iteration DESC, branch DESC",
        horizon);
    for (auto& checkpoint : read_checkpoints(*query, impl_->directory)) {
      found.push_back(std::move(checkpoint));
    }
    return found;
  });
}

result<std::vector<run_row>> catalog::runs() {
  using rows = std::vector<run_row>;
  return guarded("listing runs", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT run_id, name, status, started_ms, ended_ms,"
        " max(iterations, (SELECT coalesce(max(last_iteration), 0) FROM ledger WHERE voided = 0)),"
        " (SELECT count(*) FROM generations), (SELECT count(*) FROM checkpoints)"
        " FROM runs ORDER BY started_ms, run_id");
    rows found;
    while (query->executeStep()) {
      run_row row;
      row.run_id = query->getColumn(0).getString();
      row.name = query->getColumn(1).getString();
      row.status = query->getColumn(2).getString();
      row.started_ms = query->getColumn(3).getInt64();
      row.ended_ms = query->getColumn(4).getInt64();
      row.iterations = unsigned_column(*query, 5);
      row.generations = unsigned_column(*query, 6);
      row.checkpoints = unsigned_column(*query, 7);
      row.directory = impl_->directory;
      found.push_back(std::move(row));
    }
    return found;
  });
}

result<std::vector<checkpoint_row>> catalog::checkpoints() {
  using rows = std::vector<checkpoint_row>;
  return guarded("listing checkpoints", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT iteration, branch, generation,"
        " CASE WHEN superseded = 1 AND state <> 'quarantined' THEN 'superseded' ELSE state END,"
        " bytes, (SELECT count(*) FROM shards s WHERE s.branch = c.branch"
        "          AND s.iteration = c.iteration), created_ms, folder"
        " FROM checkpoints c ORDER BY branch, iteration");
    rows found;
    while (query->executeStep()) {
      checkpoint_row row;
      row.iteration = unsigned_column(*query, 0);
      row.branch = query->getColumn(1).getUInt();
      row.generation = unsigned_column(*query, 2);
      row.state = query->getColumn(3).getString();
      row.bytes = unsigned_column(*query, 4);
      row.shards = query->getColumn(5).getUInt();
      row.committed_ms = query->getColumn(6).getInt64();
      row.directory = impl_->directory / query->getColumn(7).getString();
      found.push_back(std::move(row));
    }
    return found;
  });
}

result<std::vector<event>> catalog::events() {
  using rows = std::vector<event>;
  return guarded("listing events", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT kind, wall_time_ms, generation, iteration, coalesce(rank, -1), subject, text"
        " FROM events ORDER BY id");
    rows found;
    while (query->executeStep()) {
      event what;
      // A kind of a later version is still worth telling; its text says what it is.
      static_cast<void>(parse_event_kind(query->getColumn(0).getString(), what.what));
      what.wall_time_ms = query->getColumn(1).getInt64();
      what.generation = unsigned_column(*query, 2);
      what.iteration = unsigned_column(*query, 3);
      what.rank = query->getColumn(4).getInt64();
      what.subject = query->getColumn(5).getString();
      what.text = query->getColumn(6).getString();
      found.push_back(std::move(what));
    }
    return found;
  });
}

result<std::vector<iteration_id>> catalog::skipped_iterations() {
  using rows = std::vector<iteration_id>;
  return guarded("listing iterations that were left out", [&]() -> result<rows> {
    auto query = impl_->database->query(
        "SELECT DISTINCT iteration FROM events WHERE kind = 'batch_skipped' ORDER BY iteration");
    rows found;
    while (query->executeStep()) found.emplace_back(unsigned_column(*query, 0));
    return found;
  });
}

}  // namespace ftrt::storage
