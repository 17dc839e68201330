// SPDX-License-Identifier: Apache-2.0
// What the two all-to-alls take on the nodes of a cluster file, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/ask/cluster_file.hpp"
#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace simulated_all_to_all_test {

using comm::AllToAllAlgorithm;

constexpr int kRanksPerNode = 8;

/// One cluster per process.
std::shared_ptr<const comm::Cluster> cluster() {
  static const auto cluster = [] {
    comm::Cluster a100 = read_cluster("a100");
    a100.nodes = 16;
    return std::make_shared<const comm::Cluster>(std::move(a100));
  }();
  return cluster;
}

struct Outcome {
  double seconds = 0;
  AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct;
};

Outcome exchanged(AllToAllAlgorithm algorithm, int nodes, std::int64_t bytes_per_pair) {
  comm::LaunchOptions options;
  options.ranks = nodes * kRanksPerNode;
  options.cluster = cluster();
  Outcome outcome;
  comm::launch("simulated", options, [&](const comm::Communicator& comm) {
    const auto buffer = [&] { return comm.device().allocate(comm.size() * bytes_per_pair); };
    const auto chunks = [&](const comm::Buffer& whole) {
      std::vector<comm::Slice> slices;
      for (int rank = 0; rank < comm.size(); ++rank)
        slices.push_back(comm::slice(whole, rank * bytes_per_pair, bytes_per_pair));
      return slices;
    };
    comm::AllToAll exchange(comm, chunks(buffer()), chunks(buffer()), algorithm);
    for (int i = 0; i < 2; ++i) comm::barrier(comm);  // what comes before leaves no trace
    const double start = comm.device().now();
    exchange.start();
    exchange.finish();
    comm.device().synchronize(comm.deadline());
    outcome.seconds = std::max(outcome.seconds, comm.device().now() - start);
    outcome.algorithm = exchange.choice().algorithm;
  });
  return outcome;
}

/// How many times as fast the hierarchical one is.
double gain(int nodes, std::int64_t bytes_per_pair) {
  return exchanged(AllToAllAlgorithm::direct, nodes, bytes_per_pair).seconds /
         exchanged(AllToAllAlgorithm::hierarchical, nodes, bytes_per_pair).seconds;
}

double crossover(int nodes) {
  const comm::MessageCosts costs = message_costs(*cluster(), {nodes * kRanksPerNode, false});
  return comm::hierarchical_ranges(costs, nodes, kRanksPerNode).at(0).below;
}

TEST(SimulatedAllToAllTest, OnSixteenNodesHierarchicalIsMuchFasterUpToAnEighthOfTheCrossover) {
  const double most = crossover(16) / 8;
  ASSERT_TRUE(most >= 512 && std::isfinite(most)) << most;  // two sizes at least, and an end
  for (std::int64_t bytes = 64; static_cast<double>(bytes) <= most; bytes *= 8)
    EXPECT_GT(gain(16, bytes), 1.5) << bytes;
}

// There it saves 21 posts of 2 us, and pays a second latency. What it sends is 8 times as long, so
// that it needs NCCL's protocol for long messages, whose latency is higher, from 4 KiB on.
TEST(SimulatedAllToAllTest, OnFourNodesItIsWhereItsMessagesAreShort) {
  const double most = crossover(4);
  ASSERT_TRUE(most / 8 >= 1024 && std::isfinite(most)) << most;
  for (std::int64_t bytes = 1024; static_cast<double>(bytes) <= most / 8; bytes *= 2)
    EXPECT_GT(gain(4, bytes), 1.5) << bytes;
  EXPECT_GT(gain(4, 2 << 10), 1.5);
}

/// Why an automatic exchange within groups of four nodes, of a world of so many, is what it is.
std::string reason_in_groups(int nodes, std::int64_t bytes_per_pair) {
  comm::LaunchOptions options;
  options.ranks = nodes * kRanksPerNode;
  options.cluster = cluster();
  std::string reason;
  comm::launch("simulated", options, [&](const comm::Communicator& world) {
    const comm::Communicator comm = world.split(world.place(world.rank()).node / 4, world.rank());
    const std::vector<comm::Slice> slices(comm.size(),
                                          whole(comm.device().allocate(bytes_per_pair)));
    const comm::AllToAll exchange(comm, slices, slices, AllToAllAlgorithm::automatic);
    if (world.rank() == 0) reason = exchange.choice().reason;
  });
  return reason;
}

// NCCL gives a group of 32 more channels than one of 64, so that longer messages are short ones.
TEST(SimulatedAllToAllTest, AGroupChoosesByItsOwnCosts) {
  const std::string alone = reason_in_groups(4, 8 << 10);
  EXPECT_NE(alone.find("on 4 nodes of 8 ranks hierarchical pays"), alone.npos) << alone;
  EXPECT_EQ(reason_in_groups(8, 8 << 10), alone);
}

// Beyond that, bytes decide, and what it goes by knows nothing of how they meet on the links.
TEST(SimulatedAllToAllTest, AutomaticIsTheFasterWhilePostsAndLatenciesCount) {
  for (std::int64_t bytes = 1 << 10; bytes <= 64 << 10; bytes *= 4) {
    const double direct = exchanged(AllToAllAlgorithm::direct, 4, bytes).seconds;
    const double hierarchical = exchanged(AllToAllAlgorithm::hierarchical, 4, bytes).seconds;
    const Outcome automatic = exchanged(AllToAllAlgorithm::automatic, 4, bytes);
    EXPECT_LT(automatic.seconds, 1.02 * std::min(direct, hierarchical)) << bytes;
  }
}

TEST(SimulatedAllToAllTest, AutomaticChoosesTheFaster) {
  const auto chosen = [](std::int64_t bytes) {
    return exchanged(AllToAllAlgorithm::automatic, 4, bytes).algorithm;
  };
  EXPECT_EQ(chosen(1 << 10), AllToAllAlgorithm::hierarchical);
  EXPECT_EQ(chosen(1 << 20), AllToAllAlgorithm::direct);
  EXPECT_LT(gain(4, 1 << 20), 1);
}

}  // namespace simulated_all_to_all_test
}  // namespace ringspan::bench
