// SPDX-License-Identifier: Apache-2.0
// How long a probe takes, in time that no other process takes of.
#include <gtest/gtest.h>

#include "comm/probe.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace {

/// Of two nodes of two, in simulated time, which nothing else takes of; at every size one of both
/// all-to-alls is clearly the faster.
struct Probed {
  MessageCosts costs;
  double seconds = 0;
};

Probed probed(double seconds) {
  Cluster cluster = test::plain_cluster(2, 2);
  cluster.fabric.messages.latency_seconds = 20e-6;
  cluster.network.messages.latency_seconds = 200e-6;
  Probed result;
  test::simulate(cluster, 4, [&](const Communicator& comm) {
    const double start = comm.device().now();
    const MessageCosts costs = probe(comm, seconds);
    if (comm.rank() == 0) result = {costs, comm.device().now() - start};
  });
  return result;
}

TEST(SimulatedProbeTest, EndsInAboutTheTimeItWasGiven) {
  const Probed result = probed(0.2);
  EXPECT_GT(result.costs.trials.count, 0);
  EXPECT_LT(result.seconds, 0.6);  // with what brings the ranks together before each turn
}

TEST(SimulatedProbeTest, EndsAsSoonAsEveryChoiceIsClear) {
  const Probed result = probed(10);
  EXPECT_EQ(result.costs.trials.count, 8);
  EXPECT_LT(result.seconds, 10);  // which it would take in doubt, and the barriers more
}

}  // namespace
}  // namespace ringspan::comm
