#include <storage/catalog_impl.hpp>

namespace ftrt::storage {

std::optional<std::uint64_t> left_at(catalog_database& database, std::uint32_t branch) {
  auto left = database.query("SELECT min(from_iteration) FROM branches WHERE branch > ?1", branch);
  if (!left->executeStep() || left->isColumnNull(0)) return std::nullopt;
  return static_cast<std::uint64_t>(left->getColumn(0).getInt64());
}

void leave_for(catalog_database& database, std::uint32_t branch, std::uint64_t from,
               std::uint64_t generation, std::int64_t now_ms) {
  database.execute(
      "INSERT INTO branches (branch, parent, from_iteration, generation, began_ms)"
      " VALUES (?1, (SELECT max(branch) FROM branches WHERE branch < ?1), ?2, ?3, ?4)",
      branch, from, generation, now_ms);
  database.execute("UPDATE checkpoints SET superseded = 1 WHERE iteration > ?2 AND branch < ?1",
                   branch, from);
  // A range that the rollback cuts in two stays in the books as two.
  database.execute(
      "INSERT INTO ledger (branch, generation, first_iteration, last_iteration, voided)"
      " SELECT branch, generation, ?2 + 1, last_iteration, 1 FROM ledger"
      " WHERE voided = 0 AND branch < ?1 AND first_iteration <= ?2 AND last_iteration > ?2",
      branch, from);
  database.execute(
      "UPDATE ledger SET voided = 1 WHERE voided = 0 AND branch < ?1 AND first_iteration > ?2",
      branch, from);
  database.execute(
      "UPDATE ledger SET last_iteration = ?2"
      " WHERE voided = 0 AND branch < ?1 AND last_iteration > ?2",
      branch, from);
}

result<branch_id> catalog::current_branch() {
  return guarded("asking for the branch", [&]() -> result<branch_id> {
    return branch_id{
        static_cast<std::uint32_t>(impl_->database->number("SELECT max(branch) FROM branches"))};
  });
}

result<branch_id> catalog::begin_branch(iteration_id from, generation_id generation,
                                        std::int64_t now_ms) {
  return impl_->database->transaction("beginning a branch", [&]() -> result<branch_id> {
    auto& database = *impl_->database;
    const auto old =
        static_cast<std::uint32_t>(database.number("SELECT max(branch) FROM branches"));
    leave_for(database, old + 1, from.value(), generation.value(), now_ms);
    return branch_id{old + 1};
  });
}

}  // namespace ftrt::storage
