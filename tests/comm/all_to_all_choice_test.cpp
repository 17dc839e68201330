// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all_choice.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace ringspan::comm {
namespace {

using enum AllToAllAlgorithm;

// 2 us and 0.5 us per message, 25 and 300 GB/s, 1.5 TB/s to copy; latencies of 5 and 1 us.
constexpr MessageCosts kCosts = {{5e-6, 2e-6, 1 / 25e9}, {1e-6, 0.5e-6, 1 / 300e9}, 1 / 1.5e12};

/// Where hierarchical ceases to pay; 0: it never does.
double crossover(const MessageCosts& costs, int nodes, int ranks) {
  const std::vector<BytesRange> ranges = hierarchical_ranges(costs, nodes, ranks);
  EXPECT_LE(ranges.size(), 1u);
  EXPECT_TRUE(ranges.empty() || ranges[0].from == 0);
  return ranges.empty() ? 0 : ranges[0].below;
}

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

// 4 nodes of 8, 6 us a post, and 0.1 us a message inside the node. In one stage 5 posts, and twice
// 7 such messages; joined 4 posts, and 7 and three times 7.
TEST(AllToAllSecondsTest, JoinedStagesArePostedAsOne) {
  MessageCosts costs = kCosts;
  costs.per_operation = 6e-6;
  costs.intra_node.per_message = 0.1e-6;
  const double latencies = 6e-6, outer = 3 * 2e-6;
  EXPECT_DOUBLE_EQ(all_to_all_seconds(costs, 0, 4, 8, 1), 30e-6 + latencies + outer + 1.4e-6);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(costs, 0, 4, 8, 3, true), 24e-6 + latencies + outer + 2.8e-6);
  const AllToAllChoice choice = choose_all_to_all(hierarchical, costs, 0, 4, 8);
  EXPECT_EQ(choice.stages, 3);
  EXPECT_TRUE(choice.joined);
  EXPECT_FALSE(choose_all_to_all(hierarchical, costs, 100'000'000, 4, 8).joined) << "nothing hides";
  EXPECT_FALSE(choose_all_to_all(hierarchical, costs, 0, 2, 8).joined) << "there is one stage";
  EXPECT_FALSE(choose_all_to_all(hierarchical, kCosts, 0, 4, 8).joined) << "posts cost nothing";
}

// Where hosts post ahead, all but the first of five posts pass while messages do, here 16.9 us.
TEST(AllToAllSecondsTest, HostsThatPostAheadWaitForTheLongerOfPostsAndMessages) {
  MessageCosts costs = kCosts;
  costs.overlap = true;
  costs.intra_node.per_message = 0.35e-6;
  const double messages = 6e-6 + 3 * 2e-6 + 2 * 7 * 0.35e-6;
  for (const double post : {1e-6, 10e-6}) {
    costs.per_operation = post;
    EXPECT_DOUBLE_EQ(all_to_all_seconds(costs, 0, 4, 8, 1), std::max(5 * post, post + messages));
  }
}

TEST(AllToAllCrossoverTest, IsWhereBothTakeEquallyLong) {
  for (const int nodes : {2, 3, 4, 16}) {
    for (const int ranks : {2, 8}) {
      const double bytes = crossover(kCosts, nodes, ranks);
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
  EXPECT_NEAR(crossover(kCosts, 2, 2), 0.5e-6 / (2 / 300e9 + 3 / 1.5e12), 1e-6);
}

TEST(AllToAllCrossoverTest, IsInfiniteWherePassingOnIsFree) {
  EXPECT_TRUE(std::isinf(crossover({{0, 1e-6, 1e-9}, {}, 0}, 4, 8)));
  EXPECT_EQ(automatic_choice({{0, 1e-6, 1e-9}, {}, 0}, 1e15, 4, 8).algorithm, hierarchical);
}

/// As over TCP, where a message of 64 KiB waits for the receiver's consent.
MessageCosts with_long_messages() {
  MessageCosts costs = {{100e-6, 20e-6, 30e-9}, {20e-6, 10e-6, 1e-9}, 0.5e-9};
  costs.inter_node.per_long_message = 1e-3;
  return costs;
}

// 3 nodes of 4: direct sends 8 messages to other nodes, hierarchical 2, which are 4 times as long.
TEST(HierarchicalRangesTest, LongMessagesMakeItPayOnceMoreWhereAllOfThemAreLong) {
  const MessageCosts costs = with_long_messages();
  const std::vector<BytesRange> ranges = hierarchical_ranges(costs, 3, 4);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].from, 0);
  EXPECT_LT(ranges[0].below, 16384);
  EXPECT_EQ(ranges[1].from, 65536);
  EXPECT_GT(ranges[1].below, 65536 * 4);
  for (const auto& [bytes, expected] :
       std::vector<std::pair<double, AllToAllAlgorithm>>{{64, hierarchical},
                                                         {16384, direct},
                                                         {65535, direct},
                                                         {65536, hierarchical},
                                                         {ranges[1].below * 0.999, hierarchical},
                                                         {ranges[1].below * 1.001, direct}}) {
    EXPECT_EQ(automatic_choice(costs, bytes, 3, 4).algorithm, expected) << bytes;
  }
  EXPECT_DOUBLE_EQ(
      all_to_all_seconds(costs, 65536, 3, 4, 0) - all_to_all_seconds(costs, 65535, 3, 4, 0),
      8e-3 + 8 * 30e-9);
}

TEST(HierarchicalRangesTest, AreWhereTheSecondsSayOnAnyNumberOfNodes) {
  MessageCosts costs = with_long_messages();
  costs.intra_node.per_medium_message = 30e-6;
  costs.intra_node.per_long_message = 50e-6;
  for (const int nodes : {2, 3, 4, 7}) {
    for (const int ranks : {2, 3, 8}) {
      const std::vector<BytesRange> ranges = hierarchical_ranges(costs, nodes, ranks);
      for (double bytes = 1; bytes < 1e9; bytes *= 1.05) {
        const bool pays = std::any_of(ranges.begin(), ranges.end(), [&](const BytesRange& range) {
          return bytes >= range.from && bytes < range.below;
        });
        double best = std::numeric_limits<double>::infinity();
        for (int stages = 1; stages < nodes; ++stages)
          best = std::min(best, all_to_all_seconds(costs, bytes, nodes, ranks, stages));
        EXPECT_EQ(pays, best < all_to_all_seconds(costs, bytes, nodes, ranks, 0)) << bytes;
      }
    }
  }
}

/// kCosts, and measurements among 4 nodes of 8 by which both are `ratio` times as far apart.
MessageCosts with_trials(const std::vector<std::pair<double, double>>& ratios) {
  MessageCosts costs = kCosts;
  costs.trials = {4, 8};
  costs.inter_node.long_from = 1e9;
  for (const auto& [bytes, ratio] : ratios) {
    const int stages = choose_all_to_all(hierarchical, kCosts, std::lround(bytes), 4, 8).stages;
    const double modelled = all_to_all_seconds(kCosts, bytes, 4, 8, stages) /
                            all_to_all_seconds(kCosts, bytes, 4, 8, 0);
    costs.trials.list[costs.trials.count++] = {bytes, 1e-3, ratio * modelled * 1e-3};
  }
  return costs;
}

TEST(AllToAllTrialsTest, ThatAgreeWithTheModelChangeNothingBeyondThem) {
  const double modelled = crossover(kCosts, 4, 8);
  const MessageCosts costs = with_trials({{64, 1}, {modelled / 2, 1}});
  EXPECT_NEAR(crossover(costs, 4, 8) / modelled, 1, 1e-9);
}

TEST(AllToAllTrialsTest, DecideAtTheirOwnSizes) {
  const double far = crossover(kCosts, 4, 8) * 100;
  const MessageCosts costs = with_trials({{64, 10}, {4096, 1e-3}, {far, 1e-6}});
  EXPECT_EQ(automatic_choice(costs, 64, 4, 8).algorithm, direct);
  EXPECT_EQ(automatic_choice(costs, 4096, 4, 8).algorithm, hierarchical);
  EXPECT_EQ(automatic_choice(costs, far, 4, 8).algorithm, hierarchical);
  EXPECT_THAT(automatic_choice(costs, 64, 4, 8).reason, testing::EndsWith(", by trials"));
}

TEST(AllToAllTrialsTest, HoldBelowTheFirstAndBeyondTheLast) {
  const MessageCosts costs = with_trials({{64, 10}, {4096, 1e-6}});
  EXPECT_EQ(automatic_choice(costs, 0, 4, 8).algorithm, direct);
  EXPECT_EQ(automatic_choice(costs, crossover(kCosts, 4, 8) * 10, 4, 8).algorithm, hierarchical);
}

// Without trials, hierarchical ceases to pay at twice the size of the only one. Where the model
// knows of longer messages, it counts until direct's have become such.
TEST(AllToAllTrialsTest, TheRatioOfTheLastStaysWhereMessagesAreLong) {
  const double modelled = crossover(kCosts, 4, 8), last = std::floor(modelled / 2);
  for (const double long_from : {last, 8 * modelled}) {
    MessageCosts costs = with_trials({{last, 1}});
    costs.inter_node.long_from = long_from;
    for (const double bytes : {last, 1.9 * last, 2.1 * last, 1e9}) {
      const bool pays = bytes < modelled || long_from == last;
      EXPECT_EQ(automatic_choice(costs, bytes, 4, 8).algorithm, pays ? hierarchical : direct)
          << long_from << " and " << bytes;
    }
  }
}

// The ratio goes from 4 to 1/4 over 64 to 16384 bytes: 1 at 1024.
TEST(AllToAllTrialsTest, BetweenTwoOfThemTheRatioFollowsTheLogarithm) {
  for (const double times : {0.99, 1.01}) {
    MessageCosts costs = kCosts;
    costs.trials = {4, 8, 2, {{{64, 1e-3, times * 4e-3}, {16384, 1e-3, times * 0.25e-3}}}};
    EXPECT_EQ(automatic_choice(costs, 1024, 4, 8).algorithm, times < 1 ? hierarchical : direct);
  }
}

// The modelled ratio has an extreme between these sizes, where what it lacks is not constant.
TEST(AllToAllTrialsTest, ThatAgreeWithEachOtherHoldAtAllSizesBetween) {
  MessageCosts costs = {{5e-6, 2e-6, 1 / 1e9}, {1e-6, 0.3e-6, 1 / 10e9}, 1 / 20e9};
  costs.trials = {4, 8, 2, {{{4096, 1e-3, 0.98e-3}, {16384, 1e-3, 0.98e-3}}}};
  for (double bytes = 4096; bytes <= 16384; bytes *= 1.01)
    EXPECT_EQ(automatic_choice(costs, bytes, 4, 8).algorithm, hierarchical) << bytes;
  const std::vector<BytesRange> ranges = hierarchical_ranges(costs, 4, 8);
  EXPECT_TRUE(std::any_of(ranges.begin(), ranges.end(), [](const BytesRange& range) {
    return range.from <= 4096 && range.below > 16384;
  }));
}

TEST(AllToAllTrialsTest, SayNothingOfOtherGroups) {
  const MessageCosts costs = with_trials({{64, 100}, {65536, 100}});
  EXPECT_EQ(crossover(costs, 4, 8), 0);
  EXPECT_EQ(crossover(costs, 2, 8), crossover(kCosts, 2, 8));
  EXPECT_EQ(crossover(costs, 4, 4), crossover(kCosts, 4, 4));
}

TEST(HierarchicalRangesTest, AreWhereTrialsSay) {
  const MessageCosts costs = with_trials({{64, 8}, {1024, 0.2}, {4096, 8}, {65536, 1e-3}});
  const std::vector<BytesRange> ranges = hierarchical_ranges(costs, 4, 8);
  for (double bytes = 1; bytes < 1e9; bytes *= 1.05) {
    const bool pays = std::any_of(ranges.begin(), ranges.end(), [&](const BytesRange& range) {
      return std::floor(bytes) >= range.from && std::floor(bytes) < range.below;
    });
    EXPECT_EQ(pays, automatic_choice(costs, bytes, 4, 8).algorithm == hierarchical) << bytes;
  }
  EXPECT_EQ(ranges.size(), 2u);
}

TEST(HierarchicalRangesTest, AreSaidInWords) {
  const auto said = [](const std::vector<BytesRange>& ranges) { return text(ranges); };
  EXPECT_EQ(said({}), "at no size");
  EXPECT_EQ(said({{}}), "at every size");
  EXPECT_EQ(said({{0, 8800.2}, {65536, 3e6}}),
            "below 8801 and from 65536 to 3000000 bytes per pair");
  EXPECT_EQ(said({{65536}}), "from 65536 bytes per pair on");
}

TEST(ChooseAllToAllTest, IsDirectWhereThereIsNothingToGain) {
  EXPECT_EQ(automatic_choice(kCosts, 8, 1, 8).algorithm, direct);
  EXPECT_EQ(automatic_choice(kCosts, 8, 8, 1).algorithm, direct);
  EXPECT_EQ(automatic_choice({}, 8, 4, 8).algorithm, direct);
  EXPECT_EQ(crossover({{1, 0, 0}, {1, 0, 0}, 0}, 4, 8), 0);  // latency alone
  EXPECT_EQ(choose_all_to_all(automatic, {}, 8, 4, 8).algorithm, direct);
}

TEST(ChooseAllToAllTest, SaysWhy) {
  EXPECT_EQ(automatic_choice({{0, 3, 1}, {0, 1, 1}, 0}, 0, 2, 2).reason,
            "0 bytes per pair; on 2 nodes of 2 ranks hierarchical pays below 1 bytes per pair");
  EXPECT_EQ(automatic_choice(kCosts, 8, 1, 8).reason, "all ranks are on one node");
  EXPECT_EQ(automatic_choice(kCosts, 8, 8, 1).reason, "every rank is on a node of its own");
  EXPECT_EQ(choose_all_to_all(automatic, {}, 8, 4, 8).reason,
            "what messages cost here has not been measured");
  EXPECT_EQ(choose_all_to_all(direct, kCosts, 8, 4, 8).reason, "direct was asked for");
}

}  // namespace
}  // namespace ringspan::comm
