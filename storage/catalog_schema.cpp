#include <array>
#include <storage/catalog_schema.hpp>

namespace ftrt::storage {
namespace {

constexpr const char* version_1 = R"sql(
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('running', 'completed', 'stopped', 'failed', 'interrupted')),
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  iterations INTEGER NOT NULL DEFAULT 0,
  summary TEXT
) STRICT;

CREATE TABLE branches (
  branch INTEGER PRIMARY KEY,
  parent INTEGER REFERENCES branches (branch),
  from_iteration INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  began_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE generations (
  generation INTEGER PRIMARY KEY,
  branch INTEGER NOT NULL REFERENCES branches (branch),
  from_iteration INTEGER NOT NULL,
  reason TEXT NOT NULL,
  began_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE incarnations (
  rank INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  began_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  cause TEXT,
  PRIMARY KEY (rank, incarnation)
) STRICT;

CREATE TABLE checkpoints (
  branch INTEGER NOT NULL REFERENCES branches (branch),
  iteration INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('committed', 'verified', 'quarantined')),
  why TEXT,
  superseded INTEGER NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)),
  world_size INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  folder TEXT NOT NULL,
  manifest BLOB NOT NULL,
  PRIMARY KEY (branch, iteration)
) STRICT;

CREATE TABLE shards (
  branch INTEGER NOT NULL,
  iteration INTEGER NOT NULL,
  part INTEGER NOT NULL,
  file TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  digest TEXT NOT NULL,
  rank INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  PRIMARY KEY (branch, iteration, part),
  FOREIGN KEY (branch, iteration) REFERENCES checkpoints (branch, iteration) ON DELETE CASCADE
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  wall_time_ms INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  iteration INTEGER NOT NULL,
  rank INTEGER,
  subject TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  branch INTEGER NOT NULL REFERENCES branches (branch),
  generation INTEGER NOT NULL,
  first_iteration INTEGER NOT NULL,
  last_iteration INTEGER NOT NULL CHECK (last_iteration >= first_iteration),
  voided INTEGER NOT NULL DEFAULT 0 CHECK (voided IN (0, 1))
) STRICT;
CREATE INDEX ledger_by_range ON ledger (voided, last_iteration);

-- History begins on branch 1, which leaves nothing.
INSERT INTO branches (branch, parent, from_iteration, generation, began_ms)
VALUES (1, NULL, 0, 0, 0);
)sql";

constexpr std::array steps{migration{1, version_1}};

}  // namespace

std::span<const migration> catalog_migrations() {
  return steps;
}

}  // namespace ftrt::storage
