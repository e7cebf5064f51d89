#include <algorithm>
#include <storage/catalog_impl.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

constexpr const char* catalog_file = "catalog.sqlite";

fs::path with_suffix(const fs::path& file, const std::string& suffix) {
  return file.string() + suffix;
}

// ".damaged-1", or the first number that is free.
std::string suffix_for_damaged(const fs::path& file) {
  std::error_code unknown;
  for (std::uint64_t number = 1;; ++number) {
    auto suffix = ".damaged-" + std::to_string(number);
    if (!fs::exists(with_suffix(file, suffix), unknown)) return suffix;
  }
}

// The database with its journal: one without the other is damage of its own.
result<void> move_aside(const fs::path& file, const std::string& why,
                        std::vector<std::string>& notes) {
  const auto suffix = suffix_for_damaged(file);
  for (const auto* part : {"", "-wal", "-shm", "-journal"}) {
    std::error_code error;
    if (!fs::exists(with_suffix(file, part), error)) continue;
    fs::rename(with_suffix(file, part), with_suffix(file, suffix + part), error);
    if (error) return fail_errno("moving " + file.string() + " aside", error.value());
  }
  notes.push_back("catalog.sqlite was damaged (" + why + ") and moved to " +
                  with_suffix(file, suffix).filename().string());
  return {};
}

result<std::unique_ptr<catalog_database>> open_or_create(const fs::path& directory,
                                                         const std::string& run_id,
                                                         std::vector<std::string>& notes) {
  const auto file = directory / catalog_file;
  auto database = open_for_writing(file);
  if (!database) return database;
  const auto version = schema_version(**database);
  if (!version) return tl::unexpected(version.error());
  auto ok = *version == 0 ? create_from_manifests(**database, directory, run_id, notes)
                          : migrate(**database, file, catalog_migrations(), notes);
  if (ok && *version != 0) ok = reconcile(**database, directory, run_id, notes);
  if (!ok) return tl::unexpected(ok.error());
  return database;
}

// History only goes forward on the newest branch: what an older one says of the time after it was
// left comes from a writer that does not know so yet.
result<void> refuse_late(catalog_database& database, branch_id branch, iteration_id iteration) {
  const auto from = left_at(database, branch.value());
  if (!from || iteration.value() <= *from) return {};
  return fail(error_code::stale_generation, "iteration " + std::to_string(iteration.value()) +
                                                " of branch " + std::to_string(branch.value()) +
                                                " is no longer history: the branch was left at " +
                                                "iteration " + std::to_string(*from));
}

}  // namespace

catalog::catalog(std::unique_ptr<impl> opened) : impl_(std::move(opened)) {}
catalog::catalog(catalog&&) noexcept = default;
catalog& catalog::operator=(catalog&&) noexcept = default;
catalog::~catalog() = default;

result<catalog> catalog::open(const fs::path& run_directory, const std::string& run_id,
                              std::vector<std::string>& notes) {
  const auto directory = fs::absolute(run_directory).lexically_normal();
  const auto file = directory / catalog_file;
  std::error_code ignored;
  // A journal without its database would be replayed into the new one.
  if (!fs::exists(file, ignored) && fs::exists(with_suffix(file, "-wal"), ignored)) {
    if (auto ok = move_aside(file, "its main file was missing", notes); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  auto database = open_or_create(directory, run_id, notes);
  if (!database && database.error().code == error_code::corrupt) {
    if (auto ok = move_aside(file, database.error().message, notes); !ok) {
      return tl::unexpected(ok.error());
    }
    database = open_or_create(directory, run_id, notes);
  }
  if (!database) return tl::unexpected(database.error());
  return catalog{std::make_unique<impl>(impl{std::move(*database), directory})};
}

result<catalog> catalog::open_read_only(const fs::path& run_directory) {
  const auto directory = fs::absolute(run_directory).lexically_normal();
  auto database = open_for_reading(directory / catalog_file);
  if (!database) return tl::unexpected(database.error());
  return catalog{std::make_unique<impl>(impl{std::move(*database), directory})};
}

result<void> catalog::begin_run(const std::string& run_id, const std::string& name,
                                std::int64_t now_ms) {
  return impl_->database->transaction("beginning the run", [&]() -> result<void> {
    impl_->database->execute(
        "INSERT INTO runs (run_id, name, status, started_ms) VALUES (?1, ?2, 'running', ?3)"
        " ON CONFLICT (run_id) DO UPDATE SET name = ?2, status = 'running', ended_ms = NULL",
        run_id, name, now_ms);
    // Of a process that was killed. Its workers ended with it, about when its last event was.
    impl_->database->execute(
        "UPDATE incarnations SET cause = 'the process that had started it was killed',"
        " ended_ms = max(began_ms, coalesce((SELECT max(wall_time_ms) FROM events), 0))"
        " WHERE ended_ms IS NULL");
    return {};
  });
}

result<void> catalog::end_run(const std::string& run_id, const std::string& status,
                              std::uint64_t iterations, const std::string& summary_json,
                              std::int64_t now_ms) {
  return impl_->database->transaction("ending the run", [&]() -> result<void> {
    impl_->database->execute(
        "UPDATE incarnations SET ended_ms = ?1, cause = 'left when the run ended'"
        " WHERE ended_ms IS NULL",
        now_ms);
    const auto rows = impl_->database->execute(
        "UPDATE runs SET status = ?2, iterations = ?3, summary = ?4, ended_ms = ?5"
        " WHERE run_id = ?1",
        run_id, status, iterations, summary_json, now_ms);
    if (rows == 1) return {};
    return fail(error_code::not_found, "the catalog knows no run '" + run_id + "'");
  });
}

result<void> catalog::begin_generation(generation_id generation, branch_id branch,
                                       iteration_id from, const std::string& reason,
                                       std::int64_t now_ms) {
  return impl_->database->transaction("beginning a generation", [&]() -> result<void> {
    const auto last = static_cast<std::uint64_t>(
        impl_->database->number("SELECT max(generation) FROM generations"));
    if (generation.value() < last) {
      return fail(error_code::stale_generation, "generation " + std::to_string(generation.value()) +
                                                    " comes after " + std::to_string(last));
    }
    impl_->database->execute(
        "INSERT INTO generations (generation, branch, from_iteration, reason, began_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (generation)"
        " DO UPDATE SET branch = ?2, from_iteration = ?3, reason = ?4",
        generation.value(), branch.value(), from.value(), reason, now_ms);
    return {};
  });
}

result<void> catalog::begin_incarnation(rank_id rank, incarnation_id incarnation, std::int32_t pid,
                                        std::int64_t now_ms) {
  return impl_->database->transaction("beginning an incarnation", [&]() -> result<void> {
    impl_->database->execute(
        "INSERT INTO incarnations (rank, incarnation, pid, began_ms) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (rank, incarnation)"
        " DO UPDATE SET pid = ?3, began_ms = ?4, ended_ms = NULL, cause = NULL",
        rank.value(), incarnation.value(), pid, now_ms);
    return {};
  });
}

result<void> catalog::end_incarnation(rank_id rank, incarnation_id incarnation,
                                      const std::string& cause, std::int64_t now_ms) {
  return impl_->database->transaction("ending an incarnation", [&]() -> result<void> {
    const auto rows = impl_->database->execute(
        "UPDATE incarnations SET ended_ms = ?3, cause = ?4 WHERE rank = ?1 AND incarnation = ?2",
        rank.value(), incarnation.value(), now_ms, cause);
    if (rows == 1) return {};
    return fail(error_code::not_found, "the catalog knows no incarnation " +
                                           std::to_string(incarnation.value()) + " of rank " +
                                           std::to_string(rank.value()));
  });
}

result<generation_id> catalog::last_generation() {
  return guarded("asking for the last generation", [&]() -> result<generation_id> {
    return generation_id{static_cast<std::uint64_t>(
        impl_->database->number("SELECT max(generation) FROM"
                                " (SELECT generation FROM generations UNION ALL"
                                "  SELECT generation FROM branches UNION ALL"
                                "  SELECT generation FROM checkpoints)"))};
  });
}

result<iteration_id> catalog::last_committed() {
  return guarded("asking for the last committed iteration", [&]() -> result<iteration_id> {
    return iteration_id{static_cast<std::uint64_t>(impl_->database->number(
        "SELECT coalesce(max(iteration), 0) FROM"
        " (SELECT last_iteration AS iteration, branch FROM ledger WHERE voided = 0 UNION ALL"
        "  SELECT iteration, branch FROM checkpoints UNION ALL"
        "  SELECT from_iteration, branch FROM branches)"
        " WHERE branch = (SELECT max(branch) FROM branches)"))};
  });
}

result<std::vector<incarnation_id>> catalog::newest_incarnations(std::uint32_t world_size) {
  return guarded("asking for incarnations", [&]() -> result<std::vector<incarnation_id>> {
    std::vector<incarnation_id> newest(world_size);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      newest[rank] = incarnation_id{static_cast<std::uint32_t>(impl_->database->number(
          "SELECT coalesce(max(incarnation), 0) FROM incarnations WHERE rank = ?",
          static_cast<std::int64_t>(rank)))};
    }
    return newest;
  });
}

result<void> catalog::add_checkpoint(const checkpoint_manifest& manifest, const fs::path& directory,
                                     checkpoint_state state) {
  return impl_->database->transaction("adding a checkpoint", [&]() -> result<void> {
    if (auto ok = refuse_late(*impl_->database, manifest.branch, manifest.iteration); !ok) {
      return ok;
    }
    return insert_checkpoint(*impl_->database, manifest, folder_name(impl_->directory, directory),
                             state, /*superseded=*/false);
  });
}

result<void> catalog::set_state(iteration_id iteration, branch_id branch, checkpoint_state state,
                                const std::string& why) {
  return impl_->database->transaction("judging a checkpoint", [&]() -> result<void> {
    const auto rows = impl_->database->execute(
        "UPDATE checkpoints SET state = ?3, why = ?4 WHERE branch = ?1 AND iteration = ?2",
        branch.value(), iteration.value(), std::string{to_string(state)}, why);
    if (rows == 1) return {};
    return fail(error_code::not_found, "the catalog knows no checkpoint of iteration " +
                                           std::to_string(iteration.value()) + " on branch " +
                                           std::to_string(branch.value()));
  });
}

result<void> catalog::remove_row(iteration_id iteration, branch_id branch) {
  return impl_->database->transaction("removing a checkpoint", [&]() -> result<void> {
    impl_->database->execute("DELETE FROM checkpoints WHERE branch = ?1 AND iteration = ?2",
                             branch.value(), iteration.value());
    return {};
  });
}

result<void> catalog::add_ledger(branch_id branch, generation_id generation, iteration_id first,
                                 iteration_id last) {
  if (last < first) {
    return fail(error_code::invalid_argument, "a ledger range that ends before it begins");
  }
  return impl_->database->transaction("writing the ledger", [&]() -> result<void> {
    auto& database = *impl_->database;
    if (auto ok = refuse_late(database, branch, last); !ok) return ok;
    // Told twice, by an actor and by the one that took over from it: an iteration is committed
    // once.
    const auto known = static_cast<std::uint64_t>(
        database.number("SELECT max(last_iteration) FROM ledger WHERE voided = 0"));
    const auto begin = std::max(first.value(), known + 1);
    if (begin > last.value()) return {};
    const auto extended = database.execute(
        "UPDATE ledger SET last_iteration = ?4 WHERE voided = 0 AND branch = ?1"
        " AND generation = ?2 AND last_iteration = ?3 - 1",
        branch.value(), generation.value(), begin, last.value());
    if (extended > 0) return {};
    database.execute(
        "INSERT INTO ledger (branch, generation, first_iteration, last_iteration)"
        " VALUES (?1, ?2, ?3, ?4)",
        branch.value(), generation.value(), begin, last.value());
    return {};
  });
}

}  // namespace ftrt::storage
