// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/ring_seconds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ringspan::attention {
namespace ring_seconds_test {

using Steps = std::vector<std::vector<RingStepSeconds>>;
using Table = std::vector<std::vector<double>>;

/// Steps of work[rank][step] and kv[rank][step], without gradients.
Steps forward_steps(const Table& work, const Table& kv) {
  Steps steps(work.size());
  for (std::size_t rank = 0; rank < work.size(); ++rank)
    for (std::size_t step = 0; step < work[rank].size(); ++step)
      steps[rank].push_back({.work = work[rank][step], .kv = kv[rank][step]});
  return steps;
}

double longest(const Steps& steps, double slowdown) {
  const std::vector<double> ended = ring_seconds(steps, slowdown);
  return *std::max_element(ended.begin(), ended.end());
}

TEST(EndOfWorkTest, MessagesSlowWorkDownOnlyWhileTheyAreUnderWay) {
  EXPECT_DOUBLE_EQ(end_of_work(1, 10, 2, {}), 11);
  EXPECT_DOUBLE_EQ(end_of_work(0, 10, 2, {{0, 4}}), 12) << "2 of the 10 in the first 4";
  EXPECT_DOUBLE_EQ(end_of_work(0, 10, 2, {{0, 100}}), 20);
  EXPECT_DOUBLE_EQ(end_of_work(0, 10, 1, {{0, 100}}), 10) << "copy engines";
  EXPECT_DOUBLE_EQ(end_of_work(5, 10, 2, {{0, 5}, {15, 16}}), 15) << "before and after it";
  EXPECT_DOUBLE_EQ(end_of_work(0, 10, 2, {{6, 8}, {2, 4}}), 12) << "in any order, with a gap";
  EXPECT_DOUBLE_EQ(end_of_work(0, 10, 2, {{0, 6}, {1, 3}, {4, 8}}), 14)
      << "once where they overlap";
}

TEST(RingSecondsTest, EqualRanksTakeTheLongerOfTheTwoInEachStep) {
  // P = 3, two hops: Tc + (P - 1) steps behind messages, the last step alone.
  const Steps steps = forward_steps(Table(3, {5, 3, 7}), Table(3, {4, 4, 0}));
  EXPECT_DOUBLE_EQ(longest(steps, 1), 5 + 4 + 7);
  EXPECT_DOUBLE_EQ(longest(steps, 2), (5 + 4 * 0.5) + (3 + 4 * 0.5) + 7);
}

TEST(RingSecondsTest, ASlowRankHoldsUpItsNeighboursAndNobodyElse) {
  // Rank 0 is late in the first step: its message of the second one, and the one to it, start late.
  const Table work{{9, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  // Step 1 ends at 9 + 2 on ranks 3, 0, 1 and at 3 on rank 2; step 2 starts at 11 on all others.
  EXPECT_DOUBLE_EQ(longest(forward_steps(work, Table(4, {0, 2, 2})), 1), 9 + 2 + 2);
  const Table two_steps{{9, 1}, {1, 1}, {1, 1}, {1, 30}};
  const std::vector<double> ended = ring_seconds(forward_steps(two_steps, Table(4, {0, 0})), 1);
  EXPECT_EQ(ended, (std::vector<double>{10, 2, 2, 31})) << "no message, no wait";
}

TEST(RingSecondsTest, WhereTwoMessagesOverlapAKernelIsSlowedOnce) {
  // Rank 1 works 10 from time 0; its message out can start at 0, the one in from rank 0 at 2.
  const Table work{{2, 1}, {0, 10}, {0, 1}};
  const Table messages{{0, 3}, {0, 4}, {0, 0}};
  // Out 0 to 4 and in 2 to 5: slowed for 5, in which 2.5 are done; 7.5 remain.
  EXPECT_DOUBLE_EQ(longest(forward_steps(work, messages), 2), 12.5);
}

TEST(RingSecondsTest, AGradientIsWaitedForAStepLaterAndThenAddedTo) {
  // Two ranks, each hands a gradient of 5 to the other once it has worked 2: it is under way from
  // 2 to 7, behind a step of 3 that adds 1, and a message of 4 of that step, from 2 to 6.
  const RingStepSeconds first{.work = 2, .gradient = 5};
  const RingStepSeconds second{.work = 3, .kv = 4, .adding = 1};
  Steps steps{{first, second}, {first, second}};
  steps[0][0].gradient_to = 1;
  EXPECT_EQ(ring_seconds(steps, 1), (std::vector<double>{8, 8}));
  // Slowed to a half for 5, in which 2.5 of the 3 are done; then 0.5, and 1 that nothing slows.
  EXPECT_EQ(ring_seconds(steps, 2), (std::vector<double>{8.5, 8.5}));
}

TEST(RingSecondsTest, AGradientMayGoToAnyRank) {
  // Rank 0 of three sends to rank 2 alone, which waits for it; rank 1 does not.
  Steps steps(3, {{.work = 1}, {.work = 1}});
  steps[0][0].gradient = 10;
  steps[0][0].gradient_to = 2;
  EXPECT_EQ(ring_seconds(steps, 1), (std::vector<double>{11, 2, 11}));
}

}  // namespace ring_seconds_test
}  // namespace ringspan::attention
