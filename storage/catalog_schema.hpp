#pragma once

#include <span>

namespace ftrt::storage {

// One step of the catalog's schema. Steps are never edited once released, only added; each runs in
// the same transaction as the others that are due.
struct migration {
  int version = 0;  // what PRAGMA user_version says afterwards; 1, 2, 3, ...
  const char* sql = nullptr;
};

// Oldest first. docs/catalog.md describes what they add up to.
[[nodiscard]] std::span<const migration> catalog_migrations();

}  // namespace ftrt::storage
