// SPDX-License-Identifier: Apache-2.0
// The balanced schedule as data: what is computed, where and when, and that messages are paired.
#include "attention/schedules/dist_flash_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace dist_flash_steps_test {

using AllSteps = std::vector<std::vector<DistFlashStep>>;  // [rank][step]

AllSteps steps_of_all(const Problem& problem, int ranks) {
  AllSteps all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(dist_flash_steps(problem, LayoutKind::contiguous, ranks, rank));
  }
  return all;
}

Problem causal(std::int64_t length) {
  Problem problem;
  problem.mask = parse_mask("causal");
  problem.sequence.length = length;
  return problem;
}

int idle_slots(const AllSteps& all) {
  int idle = 0;
  for (const auto& steps : all) {
    idle += static_cast<int>(
        std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.idle(); }));
  }
  return idle;
}

// The paper's figure: 36 blocks on 8 ranks in 5 steps, 4 slots of 40 idle.
TEST(DistFlashStepsTest, AreFiveOnEightRanksWithFourIdleSlots) {
  const AllSteps all = steps_of_all(causal(64), 8);
  for (const auto& steps : all) EXPECT_EQ(steps.size(), 5u);
  EXPECT_EQ(idle_slots(all), 4);
}

TEST(DistFlashStepsTest, LeaveHalfTheRanksIdleOnceIfTheirNumberIsEvenAndNoneIfItIsOdd) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const AllSteps all = steps_of_all(causal(3 * ranks + 1), ranks);
    for (const auto& steps : all) {
      ASSERT_EQ(static_cast<int>(steps.size()), ranks / 2 + 1);
      for (const DistFlashStep& step : steps) {  // no slot has more than one pair of blocks
        EXPECT_TRUE(step.own.empty() || step.helped.empty());
      }
    }
    EXPECT_EQ(idle_slots(all), ranks % 2 == 0 ? ranks / 2 : 0) << ranks;
  }
}

// Early ranks help those at the end, never the other way round.
TEST(DistFlashStepsTest, LetEarlyRanksHelpLateOnes) {
  const AllSteps all = steps_of_all(causal(70), 7);
  for (int rank = 0; rank < 7; ++rank) {
    for (int t = 1; t <= 3; ++t) {
      EXPECT_EQ(all[rank][t].helped.empty(), rank >= t);
      EXPECT_EQ(all[rank][t].behind, (rank - t + 7) % 7);
    }
  }
}

const std::vector<const char*> kMasks{"full",     "causal",      "window:3",
                                      "window:9", "window:9:20", "documents+causal"};

template <typename Each>
void for_each_case(const Each& each) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const char* mask : kMasks) {
      for (const std::int64_t length : {1, 5, 16, 41}) {
        SCOPED_TRACE(concat(mask, ", ", length, " tokens, ", ranks, " ranks"));
        Problem problem;
        problem.mask = parse_mask(mask);
        problem.sequence = {length, {length / 3, 0, length / 2}};
        each(problem, ranks);
      }
    }
  }
}

TEST(DistFlashStepsTest, ComputeEveryVisiblePairOfBlocksOnce) {
  for_each_case([](const Problem& problem, int ranks) {
    std::vector<int> computed(ranks * ranks);  // [queries][keys]
    const AllSteps all = steps_of_all(problem, ranks);
    std::int64_t met = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const DistFlashStep& step : all[rank]) {
        computed[rank * ranks + step.behind] += !step.own.empty();
        computed[step.behind * ranks + rank] += !step.helped.empty();
        met += visible_pairs(step.own) + visible_pairs(step.helped);
      }
    }
    EXPECT_LE(*std::max_element(computed.begin(), computed.end()), 1);
    const Shard everything{{0, 1, problem.sequence.length}};
    EXPECT_EQ(met,
              visible_pairs(visible_tiles(everything, everything, problem.sequence, problem.mask)));
  });
}

// Both ends of a message derive it for themselves.
TEST(DistFlashStepsTest, AreSentWhatTheyUseAndNothingElse) {
  for_each_case([](const Problem& problem, int ranks) {
    const AllSteps all = steps_of_all(problem, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t t = 1; t < all[rank].size(); ++t) {
        const DistFlashStep& step = all[rank][t];
        const DistFlashStep& ahead = all[step.ahead][t];
        EXPECT_EQ(ahead.behind, rank);
        EXPECT_EQ(step.lends_keys, !ahead.own.empty());
        EXPECT_EQ(step.is_helped, !ahead.helped.empty());
      }
    }
  });
}

}  // namespace dist_flash_steps_test
}  // namespace ringspan::attention
