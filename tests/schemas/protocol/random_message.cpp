#include <tests/schemas/protocol/random_message.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <ftrt/types.hpp>
#include <tuple>
#include <type_traits>

namespace ftrt::protocol::testing {
namespace {

template <class Number>
Number any_number(message_source& s) {
  return Number{static_cast<typename Number::rep>(s.number())};
}

rank_id any_rank(message_source& s) {
  return rank_id{static_cast<std::uint32_t>(s.below(65536))};
}

std::int32_t any_pid(message_source& s) {
  return static_cast<std::int32_t>(1 + s.below(0x7FFFFFFE));
}

bool coin(message_source& s) {
  return s.below(2) == 1;
}

std::string digest(message_source& s) {
  std::string hex(32, '0');
  for (auto& c : hex) c = "0123456789abcdef"[s.below(16)];
  return hex;
}

diagnostic any_diagnostic(message_source& s) {
  diagnostic d;
  d.file = s.text(64);
  d.line = static_cast<std::uint32_t>(s.number());
  d.key = s.text(16);
  d.expected = s.text(64);
  d.found = s.text(64);
  d.hint = s.text(64);
  return d;
}

void fill(message_source& s, zygote_configure& m) {
  m = {s.text(2000), coin(s)};
}
void fill(message_source& s, fork_worker& m) {
  m = {any_rank(s), any_number<incarnation_id>(s), static_cast<std::uint32_t>(s.number())};
}
void fill(message_source& s, expect_sources& m) {
  m = {static_cast<std::uint32_t>(1 + s.below(max_sources))};
}
void fill(message_source& s, assign& m) {
  m = {any_rank(s), any_number<incarnation_id>(s)};
}
void fill(message_source& s, zygote_ready& m) {
  m = {s.layout(s.below(12)),
       s.number() >> 20,
       s.number() >> 20,
       s.number(),
       s.number(),
       s.number(),
       s.number(),
       s.number()};
}
void fill(message_source& s, zygote_refused& m) {
  for (auto n = s.below(5); n > 0; --n) m.diagnostics.push_back(any_diagnostic(s));
}
void fill(message_source& s, worker_forked& m) {
  m = {any_rank(s), any_number<incarnation_id>(s), any_pid(s),
       static_cast<std::uint32_t>(s.number())};
}
void fill(message_source& s, fork_failed& m) {
  m = {any_rank(s), any_number<incarnation_id>(s), s.text(300),
       static_cast<std::uint32_t>(s.number())};
}
void fill(message_source& s, worker_exited& m) {
  m = {any_rank(s), any_number<incarnation_id>(s), any_pid(s),
       static_cast<std::int32_t>(s.number()), static_cast<std::uint32_t>(s.number())};
}
void fill(message_source& s, join& m) {
  const auto world = static_cast<std::uint32_t>(2 + s.below(65535));
  const auto rank = static_cast<std::uint32_t>(s.below(world));
  const auto source = (rank + 1 + static_cast<std::uint32_t>(s.below(world - 1))) % world;
  m = {any_number<generation_id>(s),
       any_number<branch_id>(s),
       rank_id{rank},
       world,
       static_cast<state_role>(s.below(6)),
       any_number<iteration_id>(s),
       rank_id{source},
       "/" + s.text(200, false),
       s.number(),
       {}};
  m.iteration = iteration_id{s.below(1000)};
  auto last = m.iteration;
  for (auto n = s.below(9); n > 0; --n) {
    last = iteration_id{last.value() + 1 + s.below(9)};
    m.left_out.push_back(last);
  }
}
void fill(message_source& s, train& m) {
  m = {any_number<generation_id>(s)};
}
void fill(message_source& s, revoke& m) {
  m = {any_number<generation_id>(s)};
}
void fill(message_source& s, hello& m) {
  m = {static_cast<std::uint16_t>(s.number()), any_rank(s),
       any_number<incarnation_id>(s),          any_pid(s),
       any_number<generation_id>(s),           any_number<iteration_id>(s),
       static_cast<worker_phase>(s.below(6)),  coin(s)};
}
void fill(message_source& s, parked& m) {
  const iteration_id committed{s.number() / 2};
  m = {any_number<generation_id>(s), committed, coin(s) ? committed.next() : iteration_id{},
       coin(s), coin(s)};
}
void fill(message_source& s, joined& m) {
  m = {any_number<generation_id>(s), any_number<iteration_id>(s), digest(s), s.number()};
}
void fill(message_source& s, join_failed& m) {
  m = {any_number<generation_id>(s), static_cast<error_code>(1 + s.below(15)), s.text(300)};
}
void fill(message_source& s, peer_lost& m) {
  m.generation = any_number<generation_id>(s);
  for (auto n = s.below(9); n > 0; --n) m.lost.push_back(any_rank(s));
}
void fill(message_source& s, snapshot_ready& m) {
  const auto parts = static_cast<std::uint32_t>(1 + s.below(65536));
  m = {any_number<generation_id>(s),
       any_number<branch_id>(s),
       any_number<iteration_id>(s),
       static_cast<std::uint32_t>(s.below(256)),
       static_cast<std::uint32_t>(s.below(parts)),
       parts,
       coin(s)};
}
void fill(message_source& s, finished& m) {
  m = {any_number<generation_id>(s),
       any_number<iteration_id>(s),
       s.number(),
       coin(s),
       digest(s),
       s.any_double(),
       s.any_double()};
}
void fill(message_source& s, program_failed& m) {
  m = {any_number<generation_id>(s), any_number<iteration_id>(s), s.text(300)};
}
void fill(message_source& s, injure& m) {
  m = {static_cast<injury_kind>(s.below(5)), static_cast<injury_target>(s.below(2)),
       any_number<iteration_id>(s), s.number(), s.number()};
  if (m.kind >= injury_kind::kill) m.phase = static_cast<injury_phase>(1 + s.below(7));
  m.delay_ns = s.below(3'600'000'000'001);
  m.iterations = s.number();
}
void fill(message_source& s, not_finite& m) {
  m.generation = any_number<generation_id>(s);
  m.iteration = any_number<iteration_id>(s);
  for (auto n = s.below(9); n > 0; --n) m.ranks.push_back(any_rank(s));
}
template <class Empty>
requires std::is_empty_v<Empty>
void fill(message_source&, Empty&) {}

// The bindings name every field, so a new field stops the compiler here.
auto fields(const zygote_configure& m) {
  const auto& [a, b] = m;
  return std::tie(a, b);
}
auto fields(const expect_sources& m) {
  return std::tie(m.count);
}
auto fields(const assign& m) {
  const auto& [a, b] = m;
  return std::tie(a, b);
}
auto fields(const fork_worker& m) {
  const auto& [a, b, c] = m;
  return std::tie(a, b, c);
}
auto fields(const zygote_ready& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto fields(const zygote_refused& m) {
  const auto& [all] = m;
  std::vector<
      std::tuple<std::string, std::uint32_t, std::string, std::string, std::string, std::string>>
      list;
  for (const auto& [a, b, c, d, e, f] : all) list.emplace_back(a, b, c, d, e, f);
  return list;
}
auto fields(const worker_forked& m) {
  const auto& [a, b, c, d] = m;
  return std::tie(a, b, c, d);
}
auto fields(const fork_failed& m) {
  const auto& [a, b, c, d] = m;
  return std::tie(a, b, c, d);
}
auto fields(const worker_exited& m) {
  const auto& [a, b, c, d, e] = m;
  return std::tie(a, b, c, d, e);
}
auto fields(const join& m) {
  const auto& [a, b, c, d, e, f, g, h, i, j] = m;
  return std::tie(a, b, c, d, e, f, g, h, i, j);
}
auto fields(const train& m) {
  const auto& [a] = m;
  return std::tie(a);
}
auto fields(const revoke& m) {
  const auto& [a] = m;
  return std::tie(a);
}
auto fields(const hello& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto fields(const parked& m) {
  const auto& [a, b, c, d, e] = m;
  return std::tie(a, b, c, d, e);
}
auto fields(const joined& m) {
  const auto& [a, b, c, d] = m;
  return std::tie(a, b, c, d);
}
auto fields(const join_failed& m) {
  const auto& [a, b, c] = m;
  return std::tie(a, b, c);
}
auto fields(const peer_lost& m) {
  const auto& [a, b] = m;
  return std::tie(a, b);
}
auto fields(const snapshot_ready& m) {
  const auto& [a, b, c, d, e, f, g] = m;
  return std::tie(a, b, c, d, e, f, g);
}
auto fields(const finished& m) {
  const auto& [a, b, c, d, e, f, g] = m;
  return std::tuple{
      a, b, c, d, e, std::bit_cast<std::uint64_t>(f), std::bit_cast<std::uint64_t>(g)};
}
auto fields(const program_failed& m) {
  const auto& [a, b, c] = m;
  return std::tie(a, b, c);
}
auto fields(const injure& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto fields(const not_finite& m) {
  const auto& [a, b, c] = m;
  return std::tie(a, b, c);
}
template <class Empty>
requires std::is_empty_v<Empty>
auto fields(const Empty&) {
  return std::tuple{};
}

template <std::size_t... Indices>
message make(message_source& s, std::size_t index, std::index_sequence<Indices...>) {
  message m;
  const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if (I == index) fill(s, m.emplace<I>());
  };
  (one(std::integral_constant<std::size_t, Indices>{}), ...);
  return m;
}

}  // namespace

message message_source::of_type(std::size_t index) {
  return make(*this, index, std::make_index_sequence<std::variant_size_v<message>>{});
}

message message_source::any() {
  return of_type(below(std::variant_size_v<message>));
}

std::string message_source::text(std::size_t max_bytes, bool with_nul) {
  std::string s(below(max_bytes + 1), '\0');
  for (auto& c : s) c = static_cast<char>(with_nul ? below(256) : 1 + below(255));
  return s;
}

state_layout message_source::layout(std::size_t tensors) {
  state_layout made;
  for (std::size_t i = 0; i < tensors; ++i) {
    tensor_spec t;
    t.name = "model.layer" + std::to_string(i) + ".weight";
    t.type = static_cast<dtype>(below(8));
    for (auto n = below(4); n > 0; --n) t.shape.push_back(static_cast<std::int64_t>(below(9)));
    t.section = static_cast<tensor_section>(below(4));
    t.size_bytes = size_of(t.type);
    for (const auto n : t.shape) t.size_bytes *= static_cast<std::uint64_t>(n);
    t.offset_bytes = align_up(made.arena_bytes, tensor_alignment_bytes);
    made.arena_bytes = t.offset_bytes + t.size_bytes;
    made.tensors.push_back(std::move(t));
  }
  return made;
}

double message_source::any_double() {
  constexpr std::array<std::uint64_t, 7> odd{
      0x0000000000000000, 0x8000000000000000,  // 0, -0
      0x7FF0000000000000,                      // infinity
      0x7FF8000000000000, 0xFFF8000012345678,  // quiet NaN, one with sign and payload
      0x7FF0000000000001,                      // signalling NaN
      0x0000000000000001};                     // smallest denormal
  const auto choice = below(2 * odd.size());
  return std::bit_cast<double>(choice < odd.size() ? odd[choice] : number());
}

std::vector<std::byte> oversized_query(std::size_t extra_bytes) {
  const auto small = encode(query{}).value();
  // The same segment, and a second one that nothing points into.
  const auto segment = std::span{small}.subspan(8);
  const std::array<std::uint32_t, 4> table{1, static_cast<std::uint32_t>(segment.size() / 8),
                                           static_cast<std::uint32_t>(extra_bytes / 8), 0};
  std::vector<std::byte> large(sizeof table + segment.size() + extra_bytes / 8 * 8);
  std::memcpy(large.data(), table.data(), sizeof table);
  std::ranges::copy(segment, large.begin() + sizeof table);
  return large;
}

bool same(const message& a, const message& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& one) {
        return fields(one) == fields(std::get<std::remove_cvref_t<decltype(one)>>(b));
      },
      a);
}

}  // namespace ftrt::protocol::testing
