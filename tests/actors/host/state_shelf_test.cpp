#include <gtest/gtest.h>

#include <actors/host/state_shelf.hpp>
#include <vector>

namespace ftrt::host {
namespace {

state_shelf::state_ptr state_of(std::uint64_t iteration) {
  return std::make_shared<const shelved_state>(shelved_state{iteration_id{iteration}, {}, {}});
}

std::vector<std::uint64_t> iterations(const state_shelf& shelf) {
  std::vector<std::uint64_t> found;
  for (const auto& state : shelf.all()) found.push_back(state->iteration.value());
  return found;
}

using numbers = std::vector<std::uint64_t>;

// Generation 2 loaded iteration 400, and trains.
void fill(state_shelf& shelf) {
  EXPECT_TRUE(shelf.offer(generation_id{1}, state_of(400)));
  shelf.begin_generation(generation_id{2});
  shelf.loaded(iteration_id{400});
}

TEST(state_shelf, keeps_what_was_loaded_until_something_newer_was) {
  state_shelf shelf;
  fill(shelf);
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(450)));
  EXPECT_EQ(iterations(shelf), (numbers{450, 400})) << "450 may not load";
  shelf.begin_generation(generation_id{3});
  shelf.loaded(iteration_id{450});
  EXPECT_EQ(iterations(shelf), (numbers{450}));
}

TEST(state_shelf, gives_back_what_was_there_before_where_the_new_one_proves_bad) {
  state_shelf shelf;
  fill(shelf);
  const auto bad = state_of(450);
  EXPECT_TRUE(shelf.offer(generation_id{2}, bad));
  shelf.begin_generation(generation_id{3});
  shelf.discard(generation_id{3}, bad);
  EXPECT_EQ(iterations(shelf), (numbers{400}));
  const auto good = shelf.of(iteration_id{400});
  ASSERT_TRUE(good);
  EXPECT_TRUE(shelf.offer(generation_id{3}, good));
  EXPECT_EQ(iterations(shelf), (numbers{400})) << "once, however often it is found";
}

TEST(state_shelf, a_search_that_comes_late_touches_nothing) {
  state_shelf shelf;
  fill(shelf);
  EXPECT_TRUE(shelf.is_stale(generation_id{1}));
  EXPECT_FALSE(shelf.offer(generation_id{1}, state_of(500)));
  shelf.discard(generation_id{1}, shelf.of(iteration_id{400}));
  EXPECT_EQ(iterations(shelf), (numbers{400}));
  shelf.begin_generation(generation_id{1});
  EXPECT_TRUE(shelf.is_stale(generation_id{1})) << "generations go one way";
}

TEST(state_shelf, a_question_asked_again_takes_nothing_from_who_answered_it_first) {
  state_shelf shelf;
  fill(shelf);
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(450)));
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(500)));
  EXPECT_TRUE(shelf.of(iteration_id{450})) << "whose answer may be taken any moment";
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(450)));
  EXPECT_EQ(iterations(shelf), (numbers{500, 450, 400}));
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(550)));
  EXPECT_EQ(iterations(shelf).size(), 3U) << "bounded";
}

TEST(state_shelf, offers_go_when_their_question_does) {
  state_shelf shelf;
  fill(shelf);
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(450)));
  EXPECT_TRUE(shelf.offer(generation_id{3}, state_of(440)));
  EXPECT_EQ(iterations(shelf), (numbers{440, 400}));
  shelf.forget_offers();
  EXPECT_EQ(iterations(shelf), (numbers{400}));
}

TEST(state_shelf, what_history_was_taken_back_past_goes) {
  state_shelf shelf;
  fill(shelf);
  EXPECT_TRUE(shelf.offer(generation_id{2}, state_of(450)));
  shelf.roll_back_to(iteration_id{420});
  EXPECT_EQ(iterations(shelf), (numbers{400}));
  shelf.roll_back_to(iteration_id{399});
  EXPECT_TRUE(shelf.all().empty());
}

}  // namespace
}  // namespace ftrt::host
