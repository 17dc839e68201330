// SPDX-License-Identifier: Apache-2.0
#include "comm/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/comm/pattern.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> broken(const std::function<void(Cluster&)>& change) {
  Cluster cluster = test::plain_cluster(2);
  change(cluster);
  return broken_rules(cluster);
}

TEST(ClusterTest, ALinePerBrokenRule) {
  EXPECT_THAT(broken([](Cluster&) {}), ElementsAre());
  EXPECT_THAT(broken([](Cluster& c) { c.issue_seconds = 0; }),
              ElementsAre("issue_seconds is 0; it must be positive"));
  EXPECT_THAT(broken([](Cluster& c) {
                c.fabric.messages.kernel_slowdown = 0.5;
                c.network.adapters_per_node = 3;
              }),
              ElementsAre("fabric.kernel_slowdown is 0.5; it must be at least 1",
                          "network.adapters_per_node is 3; it must be at least 1 and divide "
                          "gpus_per_node, 8"));
  EXPECT_THAT(broken([](Cluster& c) { c.fabric.gpus_per_switch = 2; }),
              ElementsAre("fabric.switch_bytes_per_second is 0; it must be positive"));
  EXPECT_THAT(broken([](Cluster& c) {
                c.fabric.gpus_per_switch = 4;
                c.fabric.numa_domains = 4;
                c.fabric.switch_bytes_per_second = c.fabric.socket_bytes_per_second = 1e9;
              }),
              ElementsAre("fabric.gpus_per_switch is 4; it must divide the GPUs of a NUMA domain, "
                          "2"));
  EXPECT_THAT(broken([](Cluster& c) {
                c.gpu.memory_bytes_per_second = std::numeric_limits<double>::quiet_NaN();
              }),
              ElementsAre(HasSubstr("gpu.memory_bytes_per_second is nan")));
  EXPECT_THAT(broken([](Cluster& c) {
                c.channels.bytes_per_second = 0;  // copy engines need no channels
              }),
              ElementsAre());
  EXPECT_THAT(broken([](Cluster& c) {
                c.channels.bytes_per_second = 0;
                c.network.messages.channels = 4;
              }),
              ElementsAre("channels.bytes_per_second is 0; it must be positive"));
}

// Or the number of GPUs, and the bytes of all channels, would wrap.
TEST(ClusterTest, NothingIsTooLargeToBeMultiplied) {
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(
      broken([](Cluster& c) { c.nodes = kMost; }),
      ElementsAre("nodes is 2147483647; times gpus_per_node, 8, it must be at most 1048576"));
  EXPECT_THAT(broken([](Cluster& c) { c.fabric.messages.channels = kMost; }),
              ElementsAre("fabric.channels is 2147483647; the most is 65536"));
  EXPECT_THAT(broken([](Cluster& c) {
                c.fabric.messages.channels = 16;
                c.channels.largest_part_bytes = c.channels.short_part_bytes =
                    std::numeric_limits<std::int64_t>::max();
              }),
              ElementsAre("channels.largest_part_bytes is 9223372036854775807; the most is "
                          "1099511627776",
                          "channels.short_part_bytes is 9223372036854775807; the most is "
                          "1099511627776"));
}

TEST(ClusterTest, OneNodeNeedsNoNetwork) {
  Cluster cluster = test::plain_cluster(1);
  cluster.network = {};
  EXPECT_THAT(broken_rules(cluster), ElementsAre());
}

TEST(ClusterTest, RanksFillNodeAfterNode) {
  Cluster cluster = test::plain_cluster(2);
  cluster.network.adapters_per_node = 4;
  cluster.fabric.numa_domains = 2;
  const std::vector<Place> full = places(cluster, 16);
  EXPECT_EQ(full[7].node, 0);
  EXPECT_EQ(full[8].node, 1);
  EXPECT_EQ(full[13].numa_domain, 1);
  EXPECT_EQ(full[13].local_rank, 5);
  EXPECT_EQ(full[13].rail, 2);
  const std::vector<Place> spread = places(cluster, 4, 2);
  EXPECT_EQ(spread[3].node, 1);
  EXPECT_EQ(spread[3].local_rank, 1);
}

TEST(ClusterTest, LinksOfALeafAreThoseOfItsEmptyNodesToo) {
  Cluster cluster = test::plain_cluster(16);
  const Cluster two = without_empty_nodes(cluster, 16);
  EXPECT_EQ(two.nodes, 2);
  EXPECT_EQ(two.network.nodes_per_leaf, 16);
  cluster.network.nodes_per_leaf = 4;
  EXPECT_EQ(without_empty_nodes(cluster, 16).network.nodes_per_leaf, 4);
}

TEST(ClusterTest, RefusesRanksThatItCannotHold) {
  const Cluster cluster = test::plain_cluster(2);
  EXPECT_EQ(test::refusal([&] { without_empty_nodes(cluster, 0); }),
            "cluster 'plain': 0 ranks; there must be at least 1");
  EXPECT_EQ(test::refusal([&] { places(cluster, 17); }),
            "cluster 'plain': 17 ranks, but it holds 2 nodes of 8");
  EXPECT_EQ(test::refusal([&] { places(cluster, 8, 9); }),
            "cluster 'plain': 9 ranks per node, but a node has 8 GPUs");
  Cluster wrong = cluster;
  wrong.gpu.kind = "";
  EXPECT_EQ(test::refusal([&] { places(wrong, 1); }), "cluster 'plain': gpu.kind is missing");
}

// The table of NCCL's channels per peer: 32 on NVLink, 4 between nodes.
TEST(ClusterTest, CutsMessagesIntoChannelsAsNcclDoes) {
  Cluster cluster = test::plain_cluster(128);
  cluster.channels.bytes_per_second = 14e9;
  cluster.fabric.messages.channels = 32;
  cluster.network.messages.channels = 4;
  constexpr std::int64_t kMiB = 1 << 20;
  const auto channels = [&](GroupExtent group, bool between_nodes, std::int64_t bytes) {
    return model_message(cluster, group, between_nodes, bytes).most_bytes_per_second / 14e9;
  };
  for (const auto& [bytes, wanted] : std::vector<std::pair<std::int64_t, int>>{{kMiB, 4},
                                                                               {64 * kMiB, 4},
                                                                               {128 * kMiB, 8},
                                                                               {256 * kMiB, 16},
                                                                               {512 * kMiB, 32},
                                                                               {2048 * kMiB, 32}})
    EXPECT_EQ(channels({8, true}, false, bytes), wanted) << bytes;
  EXPECT_EQ(channels({2, true}, false, kMiB), 16);
  EXPECT_EQ(channels({2, true}, false, 512 * kMiB), 32);
  for (const auto& [ranks, wanted] :
       std::vector<std::pair<int, int>>{{16, 4}, {64, 4}, {128, 2}, {256, 1}, {1024, 1}}) {
    EXPECT_EQ(channels({ranks, false}, true, 512 * kMiB), wanted) << ranks;
    EXPECT_EQ(channels({ranks, false}, false, 512 * kMiB), wanted) << ranks;  // the scarcest peer
  }
}

TEST(ClusterTest, ShortMessagesTakeAnotherProtocol) {
  Cluster cluster = test::plain_cluster(1);
  cluster.fabric.messages = {
      .latency_seconds = 12e-6, .short_latency_seconds = 7e-6, .channels = 4};
  const GroupExtent group{8, true};
  const MessageModel small = model_message(cluster, group, false, 4 * 16384);
  EXPECT_EQ(small.latency_seconds, 7e-6);
  EXPECT_EQ(small.wire_bytes, 8 * 16384);
  const MessageModel large = model_message(cluster, group, false, 4 * 16384 + 1);
  EXPECT_EQ(large.latency_seconds, 12e-6);
  EXPECT_EQ(large.wire_bytes, 4 * 16384 + 1);
}

TEST(ClusterTest, KnowsWhatAlgorithmsAreChosenBy) {
  Cluster cluster = test::plain_cluster(2);
  cluster.network.adapters_per_node = 4;
  cluster.network.messages.gap_seconds = 2e-6;
  const MessageCosts costs = message_costs(cluster, {16, false});
  EXPECT_EQ(costs.intra_node.latency, 1e-6);
  EXPECT_EQ(costs.inter_node.latency, 5e-6);
  EXPECT_EQ(costs.inter_node.per_message, 2e-6);
  EXPECT_EQ(costs.inter_node.per_byte, 1 / 20e9);  // two GPUs on an adapter
  EXPECT_EQ(costs.inter_node.long_latency, 0) << "copy engines have one protocol";
}

TEST(ClusterTest, AlgorithmsAreChosenByWhatEitherProtocolCosts) {
  Cluster cluster = test::plain_cluster(2);
  cluster.fabric.messages.channels = 16;
  cluster.fabric.messages.short_latency_seconds = 0.5e-6;
  cluster.network.messages = {.latency_seconds = 20e-6,
                              .short_latency_seconds = 8e-6,
                              .channels = 2,
                              .gap_seconds = 3e-6,
                              .short_gap_seconds = 1e-6};
  const LinkCosts link = message_costs(cluster, {16, false}).inter_node;
  for (const std::int64_t bytes : {1, 2 * 16384, 2 * 16384 + 1, 1 << 20}) {
    const MessageModel model = model_message(cluster, {16, false}, true, bytes);
    EXPECT_DOUBLE_EQ(link.latency_of(static_cast<double>(bytes)), model.latency_seconds) << bytes;
    EXPECT_DOUBLE_EQ(link.message(static_cast<double>(bytes)), model.gap_seconds) << bytes;
  }
}

}  // namespace
}  // namespace ringspan::comm
