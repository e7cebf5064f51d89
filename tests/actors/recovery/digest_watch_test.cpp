#include <gtest/gtest.h>

#include <actors/recovery/digest_watch.hpp>
#include <string>
#include <vector>

// How the digests that ranks write are compared.
using namespace ftrt;
using namespace ftrt::recovery;

namespace {

constexpr generation_id g1{1};
constexpr rank_id r0{0};
constexpr rank_id r1{1};

using kind = digest_watch::verdict::kind;

digest_watch watching(std::uint32_t world) {
  digest_watch watch{world};
  watch.begin(g1);
  return watch;
}

void say(digest_watch& watch, std::uint64_t iteration, const std::vector<std::string>& words) {
  for (std::uint32_t r = 0; r < words.size(); ++r)
    watch.add(rank_id{r}, g1, iteration_id{iteration}, words[r]);
}

TEST(digest_watch, agreement_is_told_once_and_the_newest_alone) {
  auto watch = watching(2);
  say(watch, 10, {"a", "a"});
  say(watch, 20, {"b", "b"});
  auto found = watch.judge();
  ASSERT_TRUE(found.agreed);
  EXPECT_EQ(found.agreed->iteration, iteration_id{20});
  EXPECT_FALSE(found.diverged);
  found = watch.judge();
  EXPECT_FALSE(found.agreed || found.diverged);
}

TEST(digest_watch, the_majority_names_who_is_odd) {
  auto watch = watching(3);
  say(watch, 10, {"a", "a", "a"});
  say(watch, 20, {"b", "x", "b"});
  say(watch, 30, {"c", "y", "c"});
  const auto found = watch.judge();
  EXPECT_EQ(found.agreed->iteration, iteration_id{10});
  ASSERT_TRUE(found.diverged);
  EXPECT_EQ(found.diverged->what, kind::odd);
  EXPECT_EQ(found.diverged->iteration, iteration_id{20}) << "the first, not the last";
  EXPECT_EQ(found.diverged->ranks, (std::vector{r1}));
}

TEST(digest_watch, two_against_two_and_one_against_one_name_nobody) {
  auto four = watching(4);
  say(four, 10, {"a", "a", "x", "x"});
  EXPECT_EQ(four.judge().diverged->what, kind::split);
  auto two = watching(2);
  say(two, 10, {"a", "x"});
  EXPECT_EQ(two.judge().diverged->what, kind::split);
  EXPECT_TRUE(two.judge().diverged == std::nullopt) << "told once";
}

TEST(digest_watch, waits_for_every_rank_and_passes_over_what_will_never_be_complete) {
  auto watch = watching(2);
  watch.add(r0, g1, iteration_id{10}, "a");
  EXPECT_FALSE(watch.judge().agreed);
  say(watch, 20, {"b", "b"});
  EXPECT_EQ(watch.judge().agreed->iteration, iteration_id{20});
  watch.add(r1, g1, iteration_id{10}, "x");
  const auto late = watch.judge();
  EXPECT_FALSE(late.agreed || late.diverged);
}

TEST(digest_watch, other_generations_strangers_and_second_words_do_not_count) {
  auto watch = watching(2);
  say(watch, 10, {"a", "a"});
  watch.add(r1, g1, iteration_id{10}, "x");
  watch.add(r1, generation_id{2}, iteration_id{10}, "x");
  watch.add(rank_id{9}, g1, iteration_id{10}, "x");
  EXPECT_TRUE(watch.judge().agreed);
  watch.add(r0, g1, iteration_id{20}, "a");
  watch.begin(generation_id{2});
  watch.add(r1, generation_id{2}, iteration_id{20}, "x");
  const auto found = watch.judge();
  EXPECT_FALSE(found.agreed || found.diverged);
}

TEST(digest_watch, a_rank_that_scribbles_fills_no_memory) {
  auto watch = watching(2);
  for (std::uint64_t k = 1; k <= 3 * digest_watch::max_open; ++k)
    watch.add(r0, g1, iteration_id{k}, "a");
  watch.add(r1, g1, iteration_id{3 * digest_watch::max_open}, "a");
  EXPECT_EQ(watch.judge().agreed->iteration, iteration_id{3 * digest_watch::max_open});
}

}  // namespace
