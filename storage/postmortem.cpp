#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <storage/file_ops.hpp>
#include <storage/postmortem.hpp>
#include <storage/private_file.hpp>
#include <storage/report_json.hpp>

namespace ftrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "generation-";
constexpr std::string_view suffix = ".json";
constexpr std::size_t max_reports = 32;
// A thousand ranks with four records each stay well below.
constexpr std::uint64_t max_report_bytes = std::uint64_t{8} << 20;
constexpr std::size_t max_records_in_all = 1024;
constexpr std::size_t max_records = 32;
constexpr std::size_t min_records = 4;

fs::path folder_of(const fs::path& run_directory) {
  return run_directory / "postmortem";
}

// With leading zeros, so that names sort.
fs::path file_of(const fs::path& run_directory, std::uint64_t generation) {
  char name[48];
  std::snprintf(name, sizeof name, "generation-%08llu.json",
                static_cast<unsigned long long>(generation));
  return folder_of(run_directory) / name;
}

std::optional<std::uint64_t> generation_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  std::uint64_t number = 0;
  const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (bad != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

double ms_between(std::int64_t from_ns, std::chrono::nanoseconds to) {
  // Either may be anything: as numbers with a fraction they cannot overflow.
  return (static_cast<double>(to.count()) - static_cast<double>(from_ns)) / 1e6;
}

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

const char* name_of(storage::record_kind kind) {
  switch (kind) {
    case storage::record_kind::iteration:
      return "iteration";
    case storage::record_kind::evaluation:
      return "evaluation";
    case storage::record_kind::digest:
      return "digest";
  }
  return "unknown";
}

postmortem_record describe(const storage::progress_record& said, std::chrono::nanoseconds now) {
  postmortem_record record;
  record.kind = name_of(said.kind);
  record.iteration = said.iteration;
  record.step_ms = to_ms(said.step_ns);
  if (said.kind == storage::record_kind::digest) return record;
  record.compute_ms = to_ms(said.compute_ns);
  record.reduce_ms = to_ms(said.reduce_ns);
  record.ago_ms = ms_between(said.committed_ns, now);
  record.collectives = said.collective_sequence;
  record.reduced_bytes = storage::reduced_bytes_in(said);
  return record;
}

const postmortem_rank* find_rank(const postmortem& report, std::uint32_t rank) {
  const auto found = std::ranges::find(report.ranks, rank, &postmortem_rank::rank);
  return found == report.ranks.end() ? nullptr : &*found;
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

std::string where_was(const postmortem_rank& rank) {
  if (!rank.member) return ", before it had entered the generation";
  const bool between = rank.phase == "evaluating" || rank.phase == "snapshot";
  return ", in " + rank.phase +
         (between ? " after iteration " + std::to_string(rank.committed)
                  : " of iteration " + std::to_string(rank.iteration));
}

}  // namespace

namespace storage {

last_words read_last_words(const shared_memory& progress, std::size_t records) {
  progress_reader reader{progress};
  last_words words;
  words.page = reader.view();
  reader.seek_newest(records);
  words.records.reserve(records);
  while (words.records.size() < records) {
    auto record = reader.next();
    if (!record) break;
    words.records.push_back(*record);
  }
  return words;
}

std::size_t records_to_keep(std::size_t ranks) {
  return std::clamp(max_records_in_all / std::max<std::size_t>(ranks, 1), min_records, max_records);
}

void describe_last_words(postmortem_rank& rank, const last_words& said, generation_id generation,
                         std::chrono::nanoseconds now) {
  const auto& page = said.page;
  rank.member = page.generation == generation;
  rank.phase = to_string(page.phase);
  rank.iteration = page.iteration.value();
  rank.committed = page.committed.value();
  rank.micro_batch = page.micro_batch;
  rank.begun = page.collective_begun;
  rank.completed = page.collective_sequence;
  rank.reduced_bytes = page.collective_bytes;
  rank.quiet_ms = ms_between(page.progress_ns, now);
  for (const auto& record : said.records) rank.records.push_back(ftrt::describe(record, now));
}

void find_missing(postmortem& report) {
  report.collective = 0;
  report.waiting.clear();
  report.missing.clear();
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& rank : report.ranks)
    if (rank.member) least = std::min(least, rank.begun);
  if (least == std::numeric_limits<std::uint64_t>::max()) return;
  const auto next = least + 1;
  for (const auto& rank : report.ranks)
    if (rank.member && rank.begun >= next && rank.completed < next)
      report.waiting.push_back(rank.rank);
  if (report.waiting.empty()) return;
  report.collective = next;
  for (const auto& rank : report.ranks)
    if (rank.member && rank.begun < next) report.missing.push_back(rank.rank);
}

result<void> write_postmortem(const fs::path& run_directory, const postmortem& report) {
  const auto folder = folder_of(run_directory);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno("making folder " + folder.string(), errno);
  }
  const auto file = file_of(run_directory, report.generation);
  if (auto written = replace_private_file(file, to_json(report)); !written) return written;
  const auto kept = list_postmortems(run_directory);
  for (std::size_t i = 0; i + max_reports < kept.size(); ++i) {
    std::error_code ignored;
    fs::remove(file_of(run_directory, kept[i]), ignored);
  }
  return {};
}

}  // namespace storage

std::vector<std::uint64_t> list_postmortems(const fs::path& run_directory) {
  std::vector<std::uint64_t> generations;
  for (const auto& name : storage::system_files().list(folder_of(run_directory))) {
    if (const auto generation = generation_of(name)) generations.push_back(*generation);
  }
  std::ranges::sort(generations);
  return generations;
}

result<postmortem> read_postmortem(const fs::path& run_directory,
                                   std::optional<std::uint64_t> generation) {
  const auto known = list_postmortems(run_directory);
  const auto run = run_directory.filename().string();
  if (known.empty()) {
    return fail(error_code::not_found, "run " + run +
                                           " has no postmortem: none of its generations has ended "
                                           "by a loss");
  }
  if (!generation) generation = known.back();
  if (std::ranges::find(known, *generation) == known.end()) {
    return fail(error_code::not_found,
                "generation " + std::to_string(*generation) + " of run " + run +
                    " has no postmortem: it did not end by a loss, or it is among those that are "
                    "not kept; there are " +
                    std::to_string(known.size()) + ", of generations " +
                    std::to_string(known.front()) + " to " + std::to_string(known.back()));
  }
  const auto file = file_of(run_directory, *generation);
  const auto text = storage::read_private_file(file, max_report_bytes);
  if (!text) return tl::unexpected(text.error());
  auto report = storage::parse_postmortem(*text);
  if (!report) {
    return fail(error_code::corrupt, file.string() + " is no postmortem: expected a JSON object");
  }
  return std::move(*report);
}

std::string headline(const postmortem& report) {
  std::string text;
  for (const auto culprit : report.culprits) {
    const auto* rank = find_rank(report, culprit);
    if (rank == nullptr) continue;
    text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(culprit)) +
            " lost: " + (rank->cause.empty() ? "unknown" : rank->cause) + where_was(*rank);
  }
  if (text.empty()) text = report.reason.empty() ? "nobody was lost" : report.reason;
  if (report.collective == 0) return text;
  const bool alone = report.missing == report.culprits && report.missing.size() == 1;
  return text + "; " + (alone ? "it" : ranks_text(report.missing)) +
         " did not arrive in collective " + std::to_string(report.collective) + ", in which " +
         ranks_text(report.waiting) + " waited";
}

}  // namespace ftrt
