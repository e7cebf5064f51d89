#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <cstdint>
#include <filesystem>
#include <ftrt/error.hpp>
#include <functional>
#include <memory>
#include <span>
#include <storage/catalog_schema.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ftrt::storage {

// SQLite for the catalog, with its exceptions turned into errors. Internal to this folder.

[[nodiscard]] error convert(const SQLite::Exception& failure, std::string_view doing);

// Runs `body`, which returns a result; SQLite's exceptions become its error.
template <class Body>
[[nodiscard]] auto guarded(std::string_view doing, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& failure) {
    return tl::unexpected(convert(failure, doing));
  }
}

// A database file and the statements that were prepared on it. Not thread-safe.
class catalog_database {
 public:
  explicit catalog_database(SQLite::Database database) : database_(std::move(database)) {}

  // A prepared statement, made at its first use; `sql` must be a literal. Reset and ready to bind;
  // whoever uses it resets it afterwards by letting go of the lease. Throws SQLite::Exception.
  class lease {
   public:
    explicit lease(SQLite::Statement& statement) : statement_(statement) {}
    ~lease() {
      statement_.tryReset();
      statement_.clearBindings();
    }
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    SQLite::Statement* operator->() { return &statement_; }
    SQLite::Statement& operator*() { return statement_; }

   private:
    SQLite::Statement& statement_;
  };

  // Binds `values` to ?1, ?2, ...
  template <class... Values>
  [[nodiscard]] lease query(const char* sql, const Values&... values) {
    auto& statement = prepare(sql);
    int index = 0;
    (bind(statement, ++index, values), ...);
    return lease{statement};
  }
  // The same, run to its end; the number of rows that changed.
  template <class... Values>
  int execute(const char* sql, const Values&... values) {
    return query(sql, values...)->exec();
  }
  // One number: the first column of the first row, 0 where it is NULL or there is none.
  template <class... Values>
  [[nodiscard]] std::int64_t number(const char* sql, const Values&... values) {
    auto statement = query(sql, values...);
    return statement->executeStep() ? statement->getColumn(0).getInt64() : 0;
  }

  // Runs `body`, which returns a result, in one transaction that commits where it succeeds.
  template <class Body>
  [[nodiscard]] auto transaction(std::string_view doing, Body&& body) -> decltype(body()) {
    return guarded(doing, [&]() -> decltype(body()) {
      // Immediate: a transaction that starts as a reader may find itself unable to write later.
      SQLite::Transaction scope{database_, SQLite::TransactionBehavior::IMMEDIATE};
      auto outcome = body();
      if (outcome) scope.commit();
      return outcome;
    });
  }

  [[nodiscard]] SQLite::Database& raw() { return database_; }

 private:
  SQLite::Statement& prepare(const char* sql);

  static void bind(SQLite::Statement& to, int index, std::int64_t value);
  static void bind(SQLite::Statement& to, int index, std::uint64_t value);
  static void bind(SQLite::Statement& to, int index, std::uint32_t value);
  static void bind(SQLite::Statement& to, int index, std::int32_t value);
  static void bind(SQLite::Statement& to, int index, std::nullptr_t);
  static void bind(SQLite::Statement& to, int index, const std::string& value);
  static void bind(SQLite::Statement& to, int index, const char* value);
  static void bind(SQLite::Statement& to, int index, const std::vector<std::byte>& value);

  SQLite::Database database_;
  std::unordered_map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
};

// Opens for writing, creates where missing, sets the pragmas and checks the file's soundness.
// `corrupt`: it is damaged, or a database of something else.
[[nodiscard]] result<std::unique_ptr<catalog_database>> open_for_writing(
    const std::filesystem::path& file);
// not_found, unsupported (newer schema), corrupt (no catalog).
[[nodiscard]] result<std::unique_ptr<catalog_database>> open_for_reading(
    const std::filesystem::path& file);

// What the schema's version is; 0: an empty file.
[[nodiscard]] result<int> schema_version(catalog_database& database);

// Brings an existing database up to the last of `steps`, in one transaction, after a copy was made
// beside it ("<file>.backup-v1"). Refuses (unsupported) a newer one. Tells `notes` what it did.
[[nodiscard]] result<void> migrate(catalog_database& database, const std::filesystem::path& file,
                                   std::span<const migration> steps,
                                   std::vector<std::string>& notes);

// Runs the steps above `version` inside a transaction of the caller. Throws SQLite::Exception.
void apply_steps(catalog_database& database, std::span<const migration> steps, int version);

}  // namespace ftrt::storage
