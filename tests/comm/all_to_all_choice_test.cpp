// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all_choice.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ringspan::comm {
namespace {

using testing::HasSubstr;
using enum AllToAllAlgorithm;

// 2 us and 0.5 us per message, 25 and 300 GB/s, 1.5 TB/s to copy; latencies of 5 and 1 us.
constexpr MessageCosts kCosts = {{5e-6, 2e-6, 1 / 25e9}, {1e-6, 0.5e-6, 1 / 300e9}, 1 / 1.5e12};

AllToAllChoice automatic_choice(const MessageCosts& costs, double bytes, int nodes, int ranks) {
  return choose_all_to_all(automatic, costs, static_cast<std::int64_t>(bytes), nodes, ranks);
}

TEST(AllToAllSecondsTest, AreThoseOfTheFormulasForTwoNodesOfTwo) {
  // direct: 5 + 2 * 2 + 0.5 us, and two blocks over the network hide the one inside the node.
  EXPECT_DOUBLE_EQ(all_to_all_seconds(kCosts, 1e6, 2, 2, 0), 9.5e-6 + 2e6 / 25e9);
  // hierarchical: 5 + 1 + 2 + 2 * 0.5 us; two blocks over the network, then two passed on and three
  // copied inside the node.
  EXPECT_DOUBLE_EQ(all_to_all_seconds(kCosts, 1e6, 2, 2, 1),
                   9e-6 + 2e6 / 25e9 + 2e6 / 300e9 + 3e6 / 1.5e12);
}

TEST(AllToAllSecondsTest, MoreStagesHideMoreAndCostMoreMessages) {
  EXPECT_LT(all_to_all_seconds(kCosts, 8, 8, 8, 1), all_to_all_seconds(kCosts, 8, 8, 8, 7));
  EXPECT_GT(all_to_all_seconds(kCosts, 1e6, 8, 8, 1), all_to_all_seconds(kCosts, 1e6, 8, 8, 7));
  EXPECT_EQ(choose_all_to_all(hierarchical, kCosts, 8, 8, 8).stages, 1);
  EXPECT_EQ(choose_all_to_all(hierarchical, kCosts, 1'000'000, 8, 8).stages, 7);
  EXPECT_EQ(choose_all_to_all(hierarchical, {}, 8, 8, 8).stages, 7);
}

TEST(AllToAllCrossoverTest, IsWhereBothTakeEquallyLong) {
  for (const int nodes : {2, 3, 4, 16}) {
    for (const int ranks : {2, 8}) {
      const double bytes = all_to_all_crossover(kCosts, nodes, ranks);
      ASSERT_GT(bytes, 0);
      const double direct_seconds = all_to_all_seconds(kCosts, bytes, nodes, ranks, 0);
      double best = std::numeric_limits<double>::infinity();
      for (int stages = 1; stages < nodes; ++stages) {
        best = std::min(best, all_to_all_seconds(kCosts, bytes, nodes, ranks, stages));
      }
      EXPECT_NEAR(best / direct_seconds, 1, 1e-12);
      EXPECT_EQ(automatic_choice(kCosts, 0, nodes, ranks).algorithm, hierarchical);
      EXPECT_EQ(automatic_choice(kCosts, 0.99 * bytes, nodes, ranks).algorithm, hierarchical);
      EXPECT_EQ(automatic_choice(kCosts, 1.01 * bytes + 1, nodes, ranks).algorithm, direct);
      EXPECT_EQ(automatic_choice(kCosts, 1e15, nodes, ranks).algorithm, direct);
    }
  }
}

TEST(AllToAllCrossoverTest, OfTwoNodesOfTwoIsWhatTheHandFinds) {
  // 0.5 us saved; 2 / 300e9 + 3 / 1.5e12 s spent per byte.
  EXPECT_NEAR(all_to_all_crossover(kCosts, 2, 2), 0.5e-6 / (2 / 300e9 + 3 / 1.5e12), 1e-6);
}

TEST(AllToAllCrossoverTest, IsInfiniteWherePassingOnIsFree) {
  EXPECT_TRUE(std::isinf(all_to_all_crossover({{0, 1e-6, 1e-9}, {}, 0}, 4, 8)));
  EXPECT_EQ(automatic_choice({{0, 1e-6, 1e-9}, {}, 0}, 1e15, 4, 8).algorithm, hierarchical);
}

TEST(ChooseAllToAllTest, IsDirectWhereThereIsNothingToGain) {
  EXPECT_EQ(automatic_choice(kCosts, 8, 1, 8).algorithm, direct);
  EXPECT_EQ(automatic_choice(kCosts, 8, 8, 1).algorithm, direct);
  EXPECT_EQ(automatic_choice({}, 8, 4, 8).algorithm, direct);
  EXPECT_EQ(all_to_all_crossover({{1, 0, 0}, {1, 0, 0}, 0}, 4, 8), 0);  // latency alone
  EXPECT_EQ(choose_all_to_all(automatic, {}, 8, 4, 8).algorithm, direct);
}

TEST(ChooseAllToAllTest, SaysWhy) {
  EXPECT_EQ(automatic_choice({{0, 3, 1}, {0, 1, 1}, 0}, 0, 2, 2).reason,
            "0 bytes per pair are below the crossover of 1 on 2 nodes of 2 ranks");
  EXPECT_THAT(automatic_choice(kCosts, 1e9, 4, 8).reason, HasSubstr("are not below the crossover"));
  EXPECT_EQ(automatic_choice(kCosts, 8, 1, 8).reason, "all ranks are on one node");
  EXPECT_EQ(automatic_choice(kCosts, 8, 8, 1).reason, "every rank is on a node of its own");
  EXPECT_EQ(choose_all_to_all(automatic, {}, 8, 4, 8).reason,
            "what messages cost here has not been measured");
  EXPECT_EQ(choose_all_to_all(direct, kCosts, 8, 4, 8).reason, "direct was asked for");
}

}  // namespace
}  // namespace ringspan::comm
