// SPDX-License-Identifier: Apache-2.0
#include "comm/probe.hpp"

#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

std::vector<TimedExchange> times_of(const LinkCosts& costs) {
  std::vector<TimedExchange> exchanges{{1, 8}, {16, 128}, {1, 1024}, {4, 4096}, {1, 1 << 20}};
  for (TimedExchange& exchange : exchanges) {
    exchange.seconds = costs.latency + exchange.messages * costs.per_message +
                       static_cast<double>(exchange.bytes) * costs.per_byte;
  }
  return exchanges;
}

TEST(FitTest, FindsTheCostsThatTheTimesWereMadeFrom) {
  const LinkCosts costs{5e-6, 2e-6, 1 / 25e9};
  const LinkCosts found = fit(times_of(costs));
  EXPECT_NEAR(found.latency, costs.latency, 1e-12);
  EXPECT_NEAR(found.per_message, costs.per_message, 1e-12);
  EXPECT_NEAR(found.per_byte, costs.per_byte, 1e-16);
}

TEST(FitTest, FindsWhatLongerMessagesCostBeyondShortOnes) {
  std::vector<TimedExchange> exchanges = times_of({5e-6, 2e-6, 1 / 25e9});
  const double one = exchanges.back().seconds;
  exchanges.push_back({8, 1 << 20, one + 7 * 300e-6});  // of 128 KiB
  LinkCosts found = fit(exchanges);
  EXPECT_NEAR(found.per_message, 2e-6, 1e-12);
  EXPECT_EQ(found.per_medium_message, 0);
  EXPECT_NEAR(found.per_long_message, 298e-6, 1e-12);
  exchanges.push_back({32, 1 << 20, one + 31 * 400e-6});  // of 32 KiB: long ones are no cheaper
  found = fit(exchanges);
  EXPECT_NEAR(found.per_medium_message, 398e-6, 1e-12);
  EXPECT_EQ(found.per_long_message, found.per_medium_message);
  EXPECT_EQ(found.message(8191), found.per_message);
  EXPECT_NEAR(found.message(8192), 400e-6, 1e-12);
}

TEST(FitTest, IsNeverNegative) {
  const std::vector<TimedExchange> shrinking{
      {1, 8, 3e-6}, {16, 128, 1e-6}, {1, 1 << 20, 2e-6}, {8, 1 << 20, 1e-6}};
  const LinkCosts found = fit(shrinking);
  EXPECT_EQ(found.per_byte, 0);
  EXPECT_EQ(found.per_message, 0);
  EXPECT_EQ(found.per_long_message, 0);
  EXPECT_GT(found.latency, 0);
}

TEST(FitTest, WeighsErrorsByTheTimesTheyBelongTo) {
  std::vector<TimedExchange> exchanges = times_of({5e-6, 2e-6, 1 / 25e9});
  exchanges.back().seconds *= 1.1;  // several times the latency
  EXPECT_NEAR(fit(exchanges).latency / 5e-6, 1, 0.05);
}

TEST(ProbeTest, TellsEveryRankTheSameAndNothingOfLinksThatAreNotThere) {
  for (const auto& [ranks, per_node] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {2, 2}, {4, 2}, {5, 2}, {5, 4}}) {
    if (!test::enough_processes(ranks)) continue;
    const LaunchOptions options{.ranks = ranks, .ranks_per_node = per_node, .deadline = 20};
    test::launch(options, [&, ranks = ranks, per_node = per_node](const Communicator& comm) {
      const std::vector<MessageCosts> all = all_gather_values(comm, probe(comm, 0.05));
      for (const MessageCosts& costs : all) {
        EXPECT_GT(costs.copy_per_byte, 0);
        EXPECT_LT(costs.copy_per_byte, 1e-6);
        for (const auto& [link, there] : {std::pair(costs.intra_node, per_node > 1),
                                          std::pair(costs.inter_node, ranks > per_node)}) {
          EXPECT_EQ(link.latency + link.per_message > 0, there);
          EXPECT_TRUE(there || link.per_byte == 0);
        }
        const AllToAllTrials& trials = costs.trials;
        const bool hierarchical = per_node > 1 && ranks > per_node;
        EXPECT_EQ(trials.nodes, hierarchical ? (ranks + per_node - 1) / per_node : 0);
        EXPECT_EQ(trials.ranks_per_node, hierarchical ? per_node : 0);
        EXPECT_EQ(trials.count > 0, hierarchical);
        double before = 0;
        for (const AllToAllTrial& trial : trials.all()) {
          EXPECT_TRUE(trial.direct > 0 && trial.hierarchical > 0);
          EXPECT_GT(trial.bytes, before);
          before = trial.bytes;
        }
        if (trials.count > 0) {
          EXPECT_EQ(trials.all().back().direct, all[0].trials.all().back().direct);
        }
        EXPECT_EQ(costs.intra_node.latency, all[0].intra_node.latency);
        EXPECT_EQ(costs.inter_node.per_byte, all[0].inter_node.per_byte);
      }
    });
  }
}

TEST(ProbeTest, RefusesToTakeNoTime) {
  test::launch({.ranks = 1}, [](const Communicator& comm) {
    EXPECT_NE(test::refusal([&] { probe(comm, 0); }), "");
    EXPECT_NE(test::refusal([&] { probe(comm, -1); }), "");
  });
}

}  // namespace
}  // namespace ringspan::comm
