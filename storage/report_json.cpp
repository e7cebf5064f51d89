#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <storage/report_json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

// Each struct names its fields once, for both directions.
namespace ftrt {
namespace {

// Keys in the order in which people read them.
using json = nlohmann::ordered_json;

// More ranks than a scenario allows, more records than a report keeps.
constexpr std::size_t max_list = 4096;

template <class Fields, class Record>
void visit_record(Fields& fields, Record& r) {
  fields("kind", r.kind);
  fields("iteration", r.iteration);
  fields("collectives", r.collectives);
  fields("reduced_bytes", r.reduced_bytes);
  fields("compute_ms", r.compute_ms);
  fields("reduce_ms", r.reduce_ms);
  fields("step_ms", r.step_ms);
  fields("ago_ms", r.ago_ms);
}

template <class Fields, class Rank>
void visit_dead_or_alive(Fields& fields, Rank& r) {
  fields("rank", r.rank);
  fields("incarnation", r.incarnation);
  fields("pid", r.pid);
  fields("alive", r.alive);
  fields("lost", r.lost);
  fields("cause", r.cause);
  fields("member", r.member);
  fields("phase", r.phase);
  fields("iteration", r.iteration);
  fields("committed", r.committed);
  fields("micro_batch", r.micro_batch);
  fields("begun", r.begun);
  fields("completed", r.completed);
  fields("reduced_bytes", r.reduced_bytes);
  fields("quiet_ms", r.quiet_ms);
  fields("records", r.records);
}

template <class Fields, class Report>
void visit_report(Fields& fields, Report& r) {
  fields("run_id", r.run_id);
  fields("generation", r.generation);
  fields("taken_ms", r.taken_ms);
  fields("reason", r.reason);
  fields("culprits", r.culprits);
  fields("collective", r.collective);
  fields("waiting", r.waiting);
  fields("missing", r.missing);
  fields("ranks", r.ranks);
}

template <class Fields, class Rank>
void visit_rank(Fields& fields, Rank& r) {
  fields("rank", r.rank);
  fields("incarnation", r.incarnation);
  fields("pid", r.pid);
  fields("alive", r.alive);
  fields("phase", r.phase);
  fields("iteration", r.iteration);
  fields("committed", r.committed);
  fields("quiet_ms", r.quiet_ms);
  fields("compute_ms", r.compute_ms);
}

template <class Fields, class Straggler>
void visit_straggler(Fields& fields, Straggler& s) {
  fields("rank", s.rank);
  fields("compute_ms", s.compute_ms);
  fields("others_ms", s.others_ms);
  fields("since_iteration", s.since_iteration);
  fields("replaced", s.replaced);
}

template <class Fields, class Status>
void visit_status(Fields& fields, Status& s) {
  fields("written_ms", s.written_ms);
  fields("phase", s.phase);
  fields("generation", s.generation);
  fields("branch", s.branch);
  fields("iteration", s.iteration);
  fields("total_iterations", s.total_iterations);
  fields("epoch", s.epoch);
  fields("train_loss", s.train_loss);
  fields("test_accuracy", s.test_accuracy);
  fields("samples_per_second", s.samples_per_second);
  fields("eta_seconds", s.eta_seconds);
  fields("last_checkpoint_iteration", s.last_checkpoint_iteration);
  fields("recoveries", s.recoveries);
  fields("actor_restarts", s.actor_restarts);
  fields("stop_reason", s.stop_reason);
  fields("error", s.error);
  fields("ranks", s.ranks);
  fields("spares", s.spares);
  fields("stragglers", s.stragglers);
}

template <class Fields, class Value>
void visit_fields(Fields& fields, Value& value) {
  using type = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<type, postmortem_record>) visit_record(fields, value);
  if constexpr (std::is_same_v<type, postmortem_rank>) visit_dead_or_alive(fields, value);
  if constexpr (std::is_same_v<type, postmortem>) visit_report(fields, value);
  if constexpr (std::is_same_v<type, rank_status>) visit_rank(fields, value);
  if constexpr (std::is_same_v<type, straggler_status>) visit_straggler(fields, value);
  if constexpr (std::is_same_v<type, run_status>) visit_status(fields, value);
}

class writer {
 public:
  template <class Value>
  void operator()(const char* key, const Value& value) {
    object_[key] = convert(value);
  }
  [[nodiscard]] json take() { return std::move(object_); }

 private:
  static json convert(const std::string& text) { return text; }
  static json convert(bool value) { return value; }
  // JSON has no NaN: what was never measured is null.
  static json convert(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
  template <std::integral Number>
  static json convert(Number value) {
    return value;
  }
  template <class Value>
  static json convert(const std::vector<Value>& list) {
    json array = json::array();
    for (const auto& each : list) array.push_back(convert(each));
    return array;
  }
  template <class Value>
  requires std::is_class_v<Value>
  static json convert(const Value& value) {
    writer fields;
    visit_fields(fields, value);
    return fields.take();
  }

  json object_ = json::object();
};

class reader {
 public:
  explicit reader(const json& object) : object_(object) {}

  template <class Value>
  void operator()(const char* key, Value& value) const {
    if (!object_.is_object()) return;
    const auto found = object_.find(key);
    if (found != object_.end()) take(*found, value);
  }

 private:
  // Each of them: whether the value was of the kind that is wanted.
  static bool take(const json& from, std::string& value) {
    if (from.is_string()) value = from.get<std::string>();
    return from.is_string();
  }
  static bool take(const json& from, bool& value) {
    if (from.is_boolean()) value = from.get<bool>();
    return from.is_boolean();
  }
  static bool take(const json& from, double& value) {
    if (from.is_number()) value = from.get<double>();
    if (from.is_null()) value = std::numeric_limits<double>::quiet_NaN();
    return from.is_number() || from.is_null();
  }
  template <std::integral Number>
  static bool take(const json& from, Number& value) {
    const bool fits =
        from.is_number_unsigned()
            ? std::in_range<Number>(from.get<std::uint64_t>())
            : from.is_number_integer() && std::in_range<Number>(from.get<std::int64_t>());
    if (fits) value = from.get<Number>();
    return fits;
  }
  template <class Value>
  static bool take(const json& from, std::vector<Value>& list) {
    if (!from.is_array()) return false;
    for (const auto& each : from) {
      if (list.size() == max_list) break;
      if (!take(each, list.emplace_back())) list.pop_back();
    }
    return true;
  }
  template <class Value>
  requires std::is_class_v<Value>
  static bool take(const json& from, Value& value) {
    const reader fields{from};
    visit_fields(fields, value);
    return from.is_object();
  }

  const json& object_;
};

template <class Value>
std::optional<Value> parse(std::string_view text) {
  const auto object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  Value value;
  const reader fields{object};
  visit_fields(fields, value);
  return value;
}

std::string dump(const json& object) {
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const postmortem& report) {
  writer fields;
  visit_fields(fields, report);
  return dump(fields.take());
}

std::string to_json(const run_status& status) {
  json object{{"run_id", status.run.run_id},
              {"status", status.run.status},
              {"directory", status.run.directory.string()},
              {"checkpoints", status.run.checkpoints},
              {"holder", status.holder.empty() ? json(nullptr) : json(status.holder)},
              {"told", status.told},
              {"age_seconds", status.told ? json(status.age_seconds) : json(nullptr)}};
  writer fields;
  visit_fields(fields, status);
  object.update(fields.take());
  return dump(object);
}

namespace storage {

std::optional<postmortem> parse_postmortem(std::string_view text) {
  return parse<postmortem>(text);
}

std::optional<run_status> parse_status(std::string_view text) {
  return parse<run_status>(text);
}

}  // namespace storage
}  // namespace ftrt
