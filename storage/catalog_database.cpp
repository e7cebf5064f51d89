#include <sqlite3.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <storage/catalog_database.hpp>

namespace ftrt::storage {
namespace {

namespace fs = std::filesystem;

constexpr int busy_timeout_ms = 5000;

// File systems whose shared memory does not span hosts, or whose locks cannot be relied on: the
// numbers of statfs(2). WAL needs both.
constexpr std::array<std::uint32_t, 11> remote_file_systems{
    0x6969,      // nfs
    0x517B,      // smb
    0xFE534D42,  // smb2
    0xFF534D42,  // cifs
    0x65735546,  // fuse
    0x01021997,  // 9p
    0x5346414F,  // afs
    0x00C36400,  // ceph
    0x0BD00BD0,  // lustre
    0x47504653,  // gpfs
    0x7461636F,  // ocfs2
};

bool is_local(const fs::path& file) {
  struct statfs found {};
  if (::statfs(file.parent_path().c_str(), &found) != 0) return false;
  const auto type = static_cast<std::uint32_t>(found.f_type);
  return std::ranges::find(remote_file_systems, type) == remote_file_systems.end();
}

error_code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error_code::busy;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return error_code::no_space;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
      return error_code::corrupt;
    case SQLITE_CONSTRAINT:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH:
      return error_code::invalid_argument;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return error_code::refused;
    default:
      return error_code::io;
  }
}

void configure(SQLite::Database& database, const fs::path& file) {
  database.exec("PRAGMA foreign_keys = ON");
  // Asking for WAL where it cannot be had leaves the old mode, which is fine.
  database.exec(is_local(file) ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
  database.exec("PRAGMA synchronous = FULL");
}

// A sound file of something else, or a damaged one, must not be written to.
result<void> check_sound(catalog_database& database, const fs::path& file) {
  auto check = database.query("PRAGMA quick_check(1)");
  const std::string verdict = check->executeStep() ? check->getColumn(0).getString() : "no answer";
  if (verdict != "ok") return fail(error_code::corrupt, file.string() + ": " + verdict);
  const bool has_tables = database.number("SELECT count(*) FROM sqlite_master") > 0;
  if (has_tables && database.number("PRAGMA user_version") == 0) {
    return fail(error_code::corrupt, file.string() + " is a database, but no catalog of ftrt");
  }
  return {};
}

result<void> refuse_newer(int version, int latest, const fs::path& file) {
  if (version <= latest) return {};
  return fail(error_code::unsupported, file.string() + " has schema version " +
                                           std::to_string(version) + ", this build knows up to " +
                                           std::to_string(latest) +
                                           "; use the version of ftrt that wrote it");
}

}  // namespace

error convert(const SQLite::Exception& failure, std::string_view doing) {
  return error{code_of(failure.getErrorCode()), std::string{"catalog: "} + failure.what(),
               "while " + std::string{doing}};
}

SQLite::Statement& catalog_database::prepare(const char* sql) {
  auto& statement = statements_[sql];
  if (!statement) statement = std::make_unique<SQLite::Statement>(database_, sql);
  return *statement;
}

void catalog_database::bind(SQLite::Statement& to, int index, std::int64_t value) {
  to.bind(index, value);
}
void catalog_database::bind(SQLite::Statement& to, int index, std::uint64_t value) {
  to.bind(index, static_cast<std::int64_t>(value));
}
void catalog_database::bind(SQLite::Statement& to, int index, std::uint32_t value) {
  to.bind(index, static_cast<std::int64_t>(value));
}
void catalog_database::bind(SQLite::Statement& to, int index, std::int32_t value) {
  to.bind(index, static_cast<std::int64_t>(value));
}
void catalog_database::bind(SQLite::Statement& to, int index, std::nullptr_t) {
  to.bind(index);
}
void catalog_database::bind(SQLite::Statement& to, int index, const std::string& value) {
  to.bind(index, value);
}
void catalog_database::bind(SQLite::Statement& to, int index, const char* value) {
  to.bind(index, value);
}
void catalog_database::bind(SQLite::Statement& to, int index, const std::vector<std::byte>& value) {
  to.bind(index, value.data(), static_cast<int>(value.size()));
}

result<std::unique_ptr<catalog_database>> open_for_writing(const fs::path& file) {
  using opened = std::unique_ptr<catalog_database>;
  return guarded("opening " + file.string(), [&]() -> result<opened> {
    SQLite::Database raw{file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                         busy_timeout_ms};
    auto database = std::make_unique<catalog_database>(std::move(raw));
    if (auto ok = check_sound(*database, file); !ok) return tl::unexpected(ok.error());
    configure(database->raw(), file);
    return database;
  });
}

result<std::unique_ptr<catalog_database>> open_for_reading(const fs::path& file) {
  using opened = std::unique_ptr<catalog_database>;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    return fail(error_code::not_found, file.string() + " does not exist");
  }
  return guarded("opening " + file.string(), [&]() -> result<opened> {
    SQLite::Database raw{file.string(), SQLite::OPEN_READONLY, busy_timeout_ms};
    auto database = std::make_unique<catalog_database>(std::move(raw));
    const auto version = schema_version(*database);
    if (!version) return tl::unexpected(version.error());
    if (*version == 0) {
      return fail(error_code::corrupt, file.string() + " is no catalog of ftrt");
    }
    const auto latest = catalog_migrations().back().version;
    if (auto ok = refuse_newer(*version, latest, file); !ok) return tl::unexpected(ok.error());
    return database;
  });
}

result<int> schema_version(catalog_database& database) {
  return guarded("reading the schema's version", [&]() -> result<int> {
    return static_cast<int>(database.number("PRAGMA user_version"));
  });
}

void apply_steps(catalog_database& database, std::span<const migration> steps, int version) {
  for (const auto& step : steps) {
    if (step.version <= version) continue;
    database.raw().exec(step.sql);
    // A pragma takes no parameter. It is part of the transaction like any other change.
    database.raw().exec("PRAGMA user_version = " + std::to_string(step.version));
  }
}

result<void> migrate(catalog_database& database, const fs::path& file,
                     std::span<const migration> steps, std::vector<std::string>& notes) {
  const auto version = schema_version(database);
  if (!version) return tl::unexpected(version.error());
  const auto latest = steps.back().version;
  if (auto ok = refuse_newer(*version, latest, file); !ok) return ok;
  if (*version == latest) return {};
  const auto backup = file.string() + ".backup-v" + std::to_string(*version);
  std::error_code ignored;
  fs::remove(backup, ignored);  // of an attempt that failed: VACUUM INTO wants a new file
  auto copied = guarded("backing up the catalog to " + backup, [&]() -> result<void> {
    SQLite::Statement copy{database.raw(), "VACUUM INTO ?1"};
    copy.bind(1, backup);
    copy.exec();
    return {};
  });
  if (!copied) return copied;
  auto done = database.transaction("migrating the catalog", [&]() -> result<void> {
    apply_steps(database, steps, *version);
    return {};
  });
  if (done) {
    notes.push_back("catalog migrated from schema version " + std::to_string(*version) + " to " +
                    std::to_string(latest) + "; the old one is " + backup);
  }
  return done;
}

}  // namespace ftrt::storage
