// SPDX-License-Identifier: Apache-2.0
// A ring beside kernels where copy engines move what stays in a node: it takes no share of the
// multiprocessors, and no channel bounds its rate. Two nodes of 8 GPUs at 160 GB/s and 1 us; what
// leaves a node goes by kernels, 4 channels at most, beside which others run at 1 / 1.25; an
// operation costs the host 5 us.
#include <gtest/gtest.h>

#include <vector>

#include "comm/ring_exchange.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_copy_engines_test {

constexpr double kIssue = 5e-6, kBetweenNodes = 1.25;
constexpr std::int64_t kBytes = 1'000'000'000;
constexpr double kHop = 1e-6 + 6.25e-3;  // seconds, in a node

#define EXPECT_SECONDS(actual, expected) EXPECT_NEAR(actual, expected, 1e-6 * (expected))

Cluster cluster() {
  Cluster result = test::plain_cluster(2);
  result.network.messages = {5e-6, 5e-6, 4, kBetweenNodes};
  result.issue_seconds = kIssue;
  return result;
}

/// When each rank has computed on all blocks of a ring, so long on each.
std::vector<double> turn(int ranks, double seconds) {
  std::vector<double> ends(ranks);
  test::simulate(cluster(), ranks, [&](const Communicator& comm) {
    RingExchange ring(comm, kBytes);
    ring.begin();
    for (int step = 0; step < comm.size(); ++step) {
      const bool last = step + 1 == comm.size();
      if (!last) ring.start(kBytes, kBytes);
      comm.device().compute(seconds, "attention");
      if (!last) ring.finish();
    }
    comm.device().synchronize(comm.deadline());
    ends[comm.rank()] = comm.device().now();
  });
  return ends;
}

TEST(SimulatedCopyEnginesTest, ARingBehindLongerKernelsCostsNothing) {
  constexpr double kKernel = 10e-3;
  for (const int ranks : {2, 5, 8})
    for (const double end : turn(ranks, kKernel)) EXPECT_SECONDS(end, 2 * kIssue + ranks * kKernel);
}

TEST(SimulatedCopyEnginesTest, ShorterKernelsAreHiddenWholeBehindTheRing) {
  constexpr double kKernel = 2e-3;
  for (const double end : turn(8, kKernel)) EXPECT_SECONDS(end, kIssue + 7 * kHop + kKernel);
}

TEST(SimulatedCopyEnginesTest, NoChannelBoundsTheRateOfALargeGroup) {
  for (const double end : turn(8, 0)) EXPECT_SECONDS(end, kIssue + 7 * kHop);
}

// In the first step: the ranks whose blocks cross, and those that get them, compute beside a
// kernel.
TEST(SimulatedCopyEnginesTest, OnlyWhatLeavesANodeSlowsKernels) {
  constexpr double kKernel = 10e-3;
  test::simulate(cluster(), 16, [](const Communicator& comm) {
    RingExchange ring(comm, kBytes);
    ring.begin();
    ring.start(kBytes, kBytes);
    comm.device().compute(kKernel, "attention");
    comm.device().synchronize(comm.deadline());
    const double own = comm.device().now() - 2 * kIssue;
    const bool crosses = comm.rank() % 8 == 0 || comm.rank() % 8 == 7;
    EXPECT_SECONDS(own, crosses ? kKernel * kBetweenNodes : kKernel) << comm.rank();
    ring.finish();
  });
}

}  // namespace simulated_copy_engines_test
}  // namespace ringspan::comm
