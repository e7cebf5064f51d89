#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <schemas/protocol/limits.hpp>
#include <schemas/protocol/messages.hpp>
#include <tests/schemas/protocol/random_message.hpp>

namespace ftrt::protocol {
namespace {

using testing::message_source;
constexpr auto types = std::variant_size_v<message>;

class codec : public ::testing::Test {
 protected:
  codec() { RecordProperty("seed", std::to_string(seed)); }
  ~codec() override {
    if (HasFailure()) std::cerr << "seed " << seed << '\n';
  }
  const std::uint64_t seed = std::random_device{}();
  message_source source{seed};
};

std::vector<std::byte> encoded(const message& m) {
  auto bytes = encode(m);
  EXPECT_TRUE(bytes.has_value()) << name_of(m) << ": " << bytes.error().describe();
  return bytes.value_or(std::vector<std::byte>{});
}

error_code code_of(const result<message>& r) {
  EXPECT_FALSE(r.has_value());
  return r ? error_code::internal : r.error().code;
}

error_code refusal_of(const message& m) {
  const auto bytes = encode(m);
  EXPECT_FALSE(bytes.has_value()) << name_of(m);
  return bytes ? error_code::internal : bytes.error().code;
}

TEST_F(codec, every_message_comes_back_as_it_was_sent) {
  for (int round = 0; round < 200; ++round) {
    for (std::size_t type = 0; type < types; ++type) {
      const auto sent = source.of_type(type);
      const auto got = decode(encoded(sent));
      ASSERT_TRUE(got.has_value()) << name_of(sent) << ": " << got.error().describe();
      EXPECT_TRUE(testing::same(sent, *got)) << name_of(sent);
    }
  }
}

TEST_F(codec, the_comparison_itself_sees_a_difference) {
  for (std::size_t type = 0; type < types; ++type) {
    const auto one = source.of_type(type);
    EXPECT_FALSE(testing::same(one, source.of_type((type + 1) % types)));
  }
  EXPECT_FALSE(testing::same(train{generation_id{1}}, train{generation_id{2}}));
  finished a, b;
  b.test_accuracy = -0.0;
  EXPECT_FALSE(testing::same(a, b));
}

TEST_F(codec, names_are_those_of_the_structs) {
  EXPECT_EQ(name_of(zygote_configure{}), "zygote_configure");
  EXPECT_EQ(name_of(snapshot_ready{}), "snapshot_ready");
  EXPECT_EQ(name_of(program_failed{}), "program_failed");
}

TEST_F(codec, unaligned_bytes_are_read_as_well) {
  for (std::size_t type = 0; type < types; ++type) {
    const auto sent = source.of_type(type);
    const auto bytes = encoded(sent);
    for (std::size_t shift = 1; shift < 8; ++shift) {
      std::vector<std::byte> moved(shift);
      moved.insert(moved.end(), bytes.begin(), bytes.end());
      const auto got = decode(std::span{moved}.subspan(shift));
      ASSERT_TRUE(got.has_value()) << got.error().describe();
      EXPECT_TRUE(testing::same(sent, *got));
    }
  }
}

TEST_F(codec, a_layout_of_five_thousand_tensors_passes) {
  zygote_ready sent;
  sent.layout = source.layout(5000);
  const auto got = decode(encoded(sent));
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  EXPECT_TRUE(testing::same(sent, *got));
}

TEST_F(codec, a_field_beyond_its_limit_is_refused_by_the_sender) {
  constexpr auto invalid = error_code::invalid_argument;
  EXPECT_EQ(refusal_of(zygote_configure{std::string(max_scenario_bytes + 1, 'x')}), invalid);
  EXPECT_EQ(refusal_of(fork_worker{rank_id{max_world_size}, {}}), invalid);
  EXPECT_EQ(refusal_of(worker_forked{rank_id{0}, {}, -1}), invalid);
  EXPECT_EQ(refusal_of(worker_exited{rank_id{0}, {}, 0, 0}), invalid);
  EXPECT_EQ(refusal_of(joined{{}, {}, std::string(65, 'a')}), invalid);
  EXPECT_EQ(refusal_of(join_failed{{}, error_code{0}, ""}), invalid);
  EXPECT_EQ(refusal_of(peer_lost{{}, std::vector<rank_id>(max_world_size + 1)}), invalid);
  EXPECT_EQ(refusal_of(parked{{}, iteration_id{5}, iteration_id{5}}), invalid);
  EXPECT_EQ(refusal_of(expect_sources{0}), invalid);
  EXPECT_EQ(refusal_of(expect_sources{max_sources + 1}), invalid);
  snapshot_ready part;
  EXPECT_EQ(refusal_of(part), invalid);  // no parts at all
  part.parts = part.part = 2;
  EXPECT_EQ(refusal_of(part), invalid);
}

TEST_F(codec, a_join_that_contradicts_itself_is_refused_by_the_sender) {
  constexpr auto invalid = error_code::invalid_argument;
  const join good{{}, {}, rank_id{1}, 2, state_role::receive, {}, rank_id{0}, ""};
  EXPECT_TRUE(encode(good).has_value());
  const auto with = [&good](auto change) {
    auto m = good;
    change(m);
    return message{m};
  };
  EXPECT_EQ(refusal_of(with([](join& m) { m.world_size = 0; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) { m.world_size = max_world_size + 1; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) { m.rank = rank_id{2}; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) { m.source = rank_id{1}; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) { m.source = rank_id{2}; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) { m.role = state_role::load_checkpoint; })), invalid);
  EXPECT_EQ(refusal_of(with([](join& m) {
              m.checkpoint_directory = std::string{"/a\0b", 4};
            })),
            invalid);
  EXPECT_EQ(refusal_of(with(
                [](join& m) { m.checkpoint_directory = "/" + std::string(max_path_bytes, 'x'); })),
            invalid);
}

TEST_F(codec, an_impossible_layout_is_refused_by_the_sender) {
  zygote_ready m;
  m.layout = source.layout(3);
  m.layout.tensors[1].name = m.layout.tensors[0].name;
  EXPECT_EQ(refusal_of(m), error_code::invalid_argument);
  m.layout = source.layout(1);
  m.layout.arena_bytes = max_memory_bytes + 1;
  EXPECT_EQ(refusal_of(m), error_code::invalid_argument);
  m.layout = source.layout(max_tensors + 1);
  EXPECT_EQ(refusal_of(m), error_code::invalid_argument);
  // Within the count, but more than a message can hold.
  m.layout = source.layout(max_tensors);
  for (auto& t : m.layout.tensors) t.name = std::string(80, 'n') + t.name;
  EXPECT_EQ(refusal_of(m), error_code::invalid_argument);
}

TEST_F(codec, free_text_is_cut_at_a_character_and_says_so) {
  std::string long_text;
  while (long_text.size() < max_text_bytes + 10) long_text += "\u00fc";
  const auto got = decode(encoded(program_failed{{}, {}, long_text}));
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  const auto& text = std::get<program_failed>(*got).text;
  EXPECT_LE(text.size(), max_text_bytes);
  const auto marker = text.find("... [cut");
  ASSERT_NE(marker, std::string::npos);
  EXPECT_EQ(marker % 2, 0u);  // whole two-byte characters
  EXPECT_NE(text.find(std::to_string(long_text.size())), std::string::npos);
}

TEST_F(codec, more_diagnostics_than_allowed_are_counted_in_the_last) {
  zygote_refused m;
  m.diagnostics.resize(max_diagnostics + 44);
  for (auto& d : m.diagnostics) d.found = std::string(3 * max_diagnostic_text_bytes, 'x');
  const auto got = decode(encoded(m));
  ASSERT_TRUE(got.has_value()) << got.error().describe();
  const auto& all = std::get<zygote_refused>(*got).diagnostics;
  ASSERT_EQ(all.size(), max_diagnostics);
  EXPECT_EQ(all.back().found, "45 more");
  EXPECT_EQ(all.front().found.size(), max_diagnostic_text_bytes);
}

TEST_F(codec, the_largest_message_of_each_kind_fits_its_own_limit) {
  EXPECT_TRUE(decode(encoded(zygote_configure{std::string(max_scenario_bytes, 'x')})));
  EXPECT_TRUE(decode(encoded(peer_lost{{}, std::vector<rank_id>(max_world_size)})));
  EXPECT_TRUE(decode(encoded(fork_failed{{}, {}, std::string(max_text_bytes, 'x')})));
  zygote_refused all;
  diagnostic full;
  full.file = std::string(max_path_bytes, 'f');
  full.key = std::string(max_diagnostic_key_bytes, 'k');
  full.expected = full.found = full.hint = std::string(max_diagnostic_text_bytes, 't');
  all.diagnostics.assign(max_diagnostics, full);
  EXPECT_TRUE(decode(encoded(all)));
}

TEST_F(codec, C43_a_million_decodes_need_no_common_budget) {
  const auto bytes = encoded(hello{});
  for (int i = 0; i < 1'000'000; ++i) {
    const auto got = decode(bytes);
    ASSERT_TRUE(got.has_value()) << "decode " << i << ": " << got.error().describe();
  }
}

TEST_F(codec, C43_an_oversized_message_of_a_small_type_is_refused_as_such) {
  EXPECT_TRUE(decode(testing::oversized_query(1024)).has_value());
  EXPECT_EQ(code_of(decode(testing::oversized_query(8192))), error_code::refused);
  EXPECT_EQ(code_of(decode(std::vector<std::byte>(max_message_bytes + 8))), error_code::refused);
}

}  // namespace
}  // namespace ftrt::protocol
