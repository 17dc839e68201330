// SPDX-License-Identifier: Apache-2.0
// The simulated network against closed forms: a node of 8 GPUs at 160 GB/s and 1 us, and two nodes
// with adapters of 40 GB/s and 5 us.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "comm/batch.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_network_test {

constexpr std::int64_t kBytes = 1'000'000'000;
constexpr double kIssue = 1e-9;  // seconds of the host per post

#define EXPECT_SECONDS(actual, expected) EXPECT_NEAR(actual, expected, 1e-6 * (expected))

/// Seconds from the launch until each GPU has done what `body` queued, on two nodes.
std::vector<double> seconds(int ranks, const RankFunction& body) {
  std::vector<double> result(ranks);
  test::simulate(test::plain_cluster(2), ranks, [&](const Communicator& comm) {
    body(comm);
    comm.device().synchronize(comm.deadline());
    result[comm.rank()] = comm.device().now();
  });
  return result;
}

double longest(int ranks, const RankFunction& body) {
  const std::vector<double> all = seconds(ranks, body);
  return *std::max_element(all.begin(), all.end());
}

/// Messages among all ranks, posted at once.
struct Flow {
  int from, to;
  std::int64_t bytes;
};
std::vector<double> seconds(int ranks, const std::vector<Flow>& flows) {
  return seconds(ranks, [&](const Communicator& comm) {
    Batch batch;
    for (const Flow& flow : flows) {
      if (flow.from == comm.rank()) batch.send(flow.to, whole(comm.device().allocate(flow.bytes)));
      if (flow.to == comm.rank())
        batch.receive(flow.from, whole(comm.device().allocate(flow.bytes)));
    }
    std::move(batch).post(comm, "flows").wait();
  });
}

Request transfer(const Communicator& comm, int from, int to, std::int64_t bytes) {
  Batch batch;
  if (comm.rank() == from) batch.send(to, whole(comm.device().allocate(bytes)));
  if (comm.rank() == to) batch.receive(from, whole(comm.device().allocate(bytes)));
  return std::move(batch).post(comm, "transfer");
}

TEST(SimulatedNetworkTest, ARingTakesLatencyAndBytesPerHop) {
  const double taken = longest(8, [](const Communicator& comm) {
    Buffer held = comm.device().allocate(kBytes), next = comm.device().allocate(kBytes);
    for (int hop = 0; hop + 1 < comm.size(); ++hop) {
      post_pair(comm, "hop", comm.next(), whole(held), comm.prev(), whole(next)).wait();
      std::swap(held, next);
    }
  });
  EXPECT_SECONDS(taken, kIssue + 7 * (1e-6 + 6.25e-3));
}

TEST(SimulatedNetworkTest, AnAllToAllIsBoundByThePorts) {
  const double taken = longest(8, [](const Communicator& comm) {
    Batch batch;
    for (int peer = 0; peer < comm.size(); ++peer) {
      batch.send(peer, whole(comm.device().allocate(kBytes / 8)));
      batch.receive(peer, whole(comm.device().allocate(kBytes / 8)));
    }
    std::move(batch).post(comm, "all_to_all").wait();
  });
  EXPECT_SECONDS(taken, kIssue + 1e-6 + 7 * 0.78125e-3);  // what it has for itself is free
}

TEST(SimulatedNetworkTest, AnIncastIsBoundByTheReceiver) {
  std::vector<Flow> flows;
  for (int sender = 1; sender < 8; ++sender) flows.push_back({sender, 0, kBytes});
  EXPECT_SECONDS(seconds(8, flows)[0], kIssue + 1e-6 + 7 * 6.25e-3);
}

TEST(SimulatedNetworkTest, FlowsOfDifferentSizesShareALinkFairly) {
  const std::vector<double> taken = seconds(16, {{8, 0, kBytes}, {9, 0, kBytes / 2}});
  // Into one adapter of 40 GB/s: each at 20 for 25 ms, then one at 40 for 12.5 ms.
  EXPECT_SECONDS(taken[9], kIssue + 5e-6 + 25e-3);
  EXPECT_SECONDS(taken[8], kIssue + 5e-6 + 37.5e-3);
}

TEST(SimulatedNetworkTest, FlowsOfOnePairShareItsLinksFairly) {
  const std::vector<double> taken =
      seconds(3, {{0, 1, kBytes}, {0, 1, kBytes / 2}, {1, 2, kBytes / 2}});
  // Two at 80 GB/s for 6.25 ms, then one at 160 for 3.125 ms; the third is alone.
  EXPECT_SECONDS(taken[1], kIssue + 1e-6 + 9.375e-3);
  EXPECT_SECONDS(taken[2], kIssue + 1e-6 + 3.125e-3);
}

// Each of three has a third of GPU 0's port; what that leaves of GPU 2's is for others.
TEST(SimulatedNetworkTest, WhatAFlowCannotUseOthersGet) {
  const std::vector<double> taken = seconds(
      5, {{1, 0, kBytes}, {2, 0, kBytes}, {4, 0, kBytes}, {2, 3, kBytes}, {2, 3, kBytes / 2}});
  EXPECT_SECONDS(taken[0], kIssue + 1e-6 + 18.75e-3);
  // Two thirds of 160 GB/s, in halves for 9.375 ms, and then all that is left of it.
  EXPECT_SECONDS(taken[3], kIssue + 1e-6 + 14.0625e-3);
}

// More than are reckoned apart from SimGrid's join one that was.
TEST(SimulatedNetworkTest, ManyFlowsShareALinkAsFewDo) {
  constexpr int kMany = 70;
  const std::vector<double> taken = seconds(3, [](const Communicator& comm) {
    if (comm.rank() == 2) comm.device().compute(1e-3, "late");
    Request first = transfer(comm, 0, 1, kBytes);
    Batch batch;
    for (int i = 0; i < kMany && comm.rank() > 0; ++i) {
      const Slice part = whole(comm.device().allocate(kBytes / kMany));
      comm.rank() == 2 ? batch.send(1, part) : batch.receive(2, part);
    }
    Request many = std::move(batch).post(comm, "many");
    first.wait();
    many.wait();
  });
  EXPECT_SECONDS(taken[2], kIssue + 1e-3 + 1e-6 + 6.25e-3 * (kMany + 1) / kMany);
  EXPECT_SECONDS(taken[1], kIssue + 1e-6 + 2 * 6.25e-3);
}

TEST(SimulatedNetworkTest, AFlowThatWasAloneMakesRoom) {
  const std::vector<double> taken = seconds(3, [](const Communicator& comm) {
    if (comm.rank() == 2) comm.device().compute(1e-3, "late");
    std::vector<Request> requests;
    for (const int sender : {1, 2}) {
      const std::int64_t bytes = kBytes / sender;
      requests.push_back(transfer(comm, sender, 0, bytes));
    }
    for (Request& request : requests) request.wait();
  });
  // 0.16 GB in the first millisecond, then half of the port until the other is through.
  EXPECT_SECONDS(taken[2], kIssue + 1e-3 + 1e-6 + 6.25e-3);
  EXPECT_SECONDS(taken[1], kIssue + 1e-3 + 1e-6 + 6.25e-3 + 2.125e-3);
}

TEST(SimulatedNetworkTest, OppositeDirectionsDoNotSlowEachOther) {
  const std::vector<double> taken = seconds(2, {{0, 1, kBytes}, {1, 0, kBytes}});
  EXPECT_SECONDS(taken[0], kIssue + 1e-6 + 6.25e-3);
}

TEST(SimulatedNetworkTest, NodesAreReachedOverAdapters) {
  std::vector<Flow> flows;
  for (int local = 0; local < 8; ++local) flows.push_back({local, 8 + local, kBytes});
  for (int local = 0; local < 8; ++local) flows.push_back({local, (local + 1) % 8, kBytes});
  const std::vector<double> taken = seconds(16, flows);
  EXPECT_SECONDS(taken[8], kIssue + 5e-6 + 25e-3);
}

TEST(SimulatedNetworkTest, AMessageWithoutBytesTakesItsLatency) {
  const double taken = longest(2, [](const Communicator& comm) {
    Send sends[] = {{comm.next(), {}}};
    Recv recvs[] = {{comm.prev(), {}}};
    comm.post("empty", sends, recvs).wait();
  });
  EXPECT_SECONDS(taken, kIssue + 1e-6);
}

TEST(SimulatedNetworkTest, AMessageStartsWhenBothEndsHavePosted) {
  const std::vector<double> taken = seconds(3, [](const Communicator& comm) {
    if (comm.rank() == 0) comm.device().compute(1e-3, "late");
    transfer(comm, 0, 1, kBytes).wait();
  });
  EXPECT_SECONDS(taken[1], kIssue + 1e-3 + 1e-6 + 6.25e-3);
  EXPECT_EQ(taken[2], 0);
}

}  // namespace simulated_network_test
}  // namespace ringspan::comm
