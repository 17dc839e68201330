// SPDX-License-Identifier: Apache-2.0
// What runs beside what: a host ahead of its GPU, kernels beside messages, and their slow-down. Two
// nodes of 8 GPUs at 160 GB/s and 1 us, 32 channels of 20 GB/s; kernels run at 1 / 1.5 beside
// messages in a node and at 1 / 1.25 beside those between nodes; an operation costs the host 5 us.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "comm/batch.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_overlap_test {

constexpr double kIssue = 5e-6, kInNode = 1.5, kBetweenNodes = 1.25;

#define EXPECT_SECONDS(actual, expected) EXPECT_NEAR(actual, expected, 1e-6 * (expected))

Cluster cluster() {
  Cluster result = test::plain_cluster(2);
  result.fabric.messages = {1e-6, 1e-6, 32, kInNode};
  result.network.messages = {5e-6, 5e-6, 4, kBetweenNodes};
  result.issue_seconds = kIssue;
  return result;
}

void simulate(int ranks, const RankFunction& body, LaunchOptions options = {}) {
  test::simulate(cluster(), ranks, body, std::move(options));
}

double synchronized(const Communicator& comm) {
  comm.device().synchronize(comm.deadline());
  return comm.device().now();
}

/// From this rank to the next and from the one before, 1 GB unless told otherwise: 6.251 ms.
Request hop(const Communicator& comm, std::int64_t bytes = 1'000'000'000) {
  return post_pair(comm, "hop", comm.next(), whole(comm.device().allocate(bytes)), comm.prev(),
                   whole(comm.device().allocate(bytes)));
}
constexpr double kHop = 1e-6 + 6.25e-3;

TEST(SimulatedQueueTest, TheHostRunsAheadAndKernelsFollowInOrder) {
  simulate(1, [](const Communicator& comm) {
    comm.device().compute(1e-3, "a");
    comm.device().compute(2e-3, "b");
    EXPECT_SECONDS(comm.device().now(), 2 * kIssue);
    EXPECT_SECONDS(synchronized(comm), kIssue + 3e-3);
  });
}

TEST(SimulatedQueueTest, KernelsShorterThanTheirIssueLeaveGaps) {
  simulate(1, [](const Communicator& comm) {
    for (int i = 0; i < 100; ++i) comm.device().compute(1e-6, "short");
    EXPECT_SECONDS(synchronized(comm), 100 * kIssue + 1e-6);
  });
}

TEST(SimulatedQueueTest, AHostThatIsALaunchQueueAheadWaits) {
  const int room = cluster().launch_queue;
  const auto body = [=](const Communicator& comm) {
    for (int i = 1; i <= room + 3; ++i) {
      comm.device().compute(1e-3, "long");
      const double oldest = i > room ? kIssue + (i - room) * 1e-3 : 0;
      EXPECT_SECONDS(comm.device().now(), std::max(oldest, (i - 1) * kIssue) + kIssue);
    }
    EXPECT_SECONDS(synchronized(comm), kIssue + (room + 3) * 1e-3);
  };
  simulate(1, body, {.trace = [](const TraceSpan&) {}});  // each kernel an event of its own
}

// Kernels that are one event take as long as those that are not.
TEST(SimulatedQueueTest, ATraceChangesNoTimes) {
  const auto seconds = [](Trace trace) {
    double result = 0;
    const auto body = [&](const Communicator& comm) {
      for (int i = 0; i < 500; ++i) {
        comm.device().compute(1e-6 * (i * (comm.rank() + 3) % 11), "kernel");
        if (i % 5 == 0) hop(comm, 1'000'000).wait();
        comm.device().compute(1e-6 * (i % 7), "kernel");
      }
      result = std::max(result, synchronized(comm));
    };
    simulate(2, body, {.trace = std::move(trace)});
    return result;
  };
  const double traced = seconds([](const TraceSpan&) {});
  EXPECT_NEAR(seconds({}), traced, 1e-12);
}

TEST(SimulatedQueueTest, CopiesTakeTheBandwidthOfTheMemory) {
  simulate(1, [](const Communicator& comm) {
    Device& device = comm.device();
    const Buffer a = device.allocate(1'000'000'000), b = device.allocate(1'000'000'000);
    device.copy(whole(a), whole(b));  // reads and writes 1 GB at 2 TB/s
    EXPECT_SECONDS(synchronized(comm), kIssue + 1e-3);
    device.reduce(whole(a), whole(b), Element::f32, Reduction::sum);
    EXPECT_SECONDS(synchronized(comm), 2 * kIssue + 2.5e-3);
  });
}

TEST(SimulatedQueueTest, OnlyASimulatedDeviceComputesWithoutWork) {
  launch("threads", {}, [](const Communicator& comm) {
    EXPECT_THROW(comm.device().compute(1, "nothing"), Error);
    EXPECT_EQ(comm.device().cluster(), nullptr);
  });
  simulate(1, [](const Communicator& comm) {
    EXPECT_EQ(comm.device().cluster()->name, "plain");
    EXPECT_THROW(comm.device().compute(-1, "backwards"), Error);
  });
}

TEST(SimulatedOverlapTest, AMessageStartsAfterWhatWasQueuedBefore) {
  simulate(2, [](const Communicator& comm) {
    if (comm.rank() == 1) comm.device().compute(3e-3, "late");
    hop(comm).wait();
    EXPECT_SECONDS(synchronized(comm), 3e-3 + kIssue + kHop);
  });
}

TEST(SimulatedOverlapTest, WhatComesAfterAWaitSeesTheMessage) {
  simulate(2, [](const Communicator& comm) {
    hop(comm).wait();
    EXPECT_SECONDS(comm.device().now(), kIssue);  // the host has not stopped
    comm.device().compute(1e-3, "behind");
    EXPECT_SECONDS(synchronized(comm), kIssue + kHop + 1e-3);
  });
}

// The kernel begins 5 us after the message and does 1 / 1.5 of its work until that has arrived.
TEST(SimulatedOverlapTest, AMessageSlowsTheKernelBesideIt) {
  simulate(2, [](const Communicator& comm) {
    Request request = hop(comm);
    comm.device().compute(10e-3, "beside");
    request.wait();
    const double beside = kHop - kIssue;
    EXPECT_SECONDS(synchronized(comm), 2 * kIssue + beside + (10e-3 - beside / kInNode));
  });
}

TEST(SimulatedOverlapTest, AKernelThatIsShorterThanTheMessageIsSlowedAllThroughIt) {
  simulate(2, [](const Communicator& comm) {
    Request request = hop(comm);
    comm.device().compute(1e-3, "beside");
    EXPECT_SECONDS(synchronized(comm), 2 * kIssue + 1e-3 * kInNode);
    request.wait();
    EXPECT_SECONDS(synchronized(comm), kIssue + kHop);
  });
}

TEST(SimulatedOverlapTest, OfSeveralMessagesTheSlowestCounts) {
  simulate(16, [](const Communicator& comm) {
    Batch in_node, between;
    if (comm.rank() == 0) in_node.send(1, whole(comm.device().allocate(160'000'000)));
    if (comm.rank() == 1) in_node.receive(0, whole(comm.device().allocate(160'000'000)));
    if (comm.rank() == 0) between.send(8, whole(comm.device().allocate(400'000'000)));
    if (comm.rank() == 8) between.receive(0, whole(comm.device().allocate(400'000'000)));
    Request first = std::move(in_node).post(comm, "in node");
    Request second = std::move(between).post(comm, "between nodes");
    comm.device().compute(20e-3, "beside");
    first.wait();
    second.wait();
    if (comm.rank() != 0) return;
    // In the node: 4 channels of the whole group, 80 GB/s, from 5 us to 2.006 ms; between nodes
    // 40 GB/s, from 10 us to 10.015 ms; the kernel from 15 us.
    const double both = 5e-6 + 1e-6 + 2e-3, one = 10e-6 + 5e-6 + 10e-3;
    const double done = (both - 15e-6) / kInNode + (one - both) / kBetweenNodes;
    EXPECT_SECONDS(synchronized(comm), one + 20e-3 - done);
  });
}

TEST(SimulatedOverlapTest, ChannelsCapARate) {
  simulate(8, [](const Communicator& comm) {
    hop(comm, 64 << 20).wait();  // 4 channels of 20 GB/s
    EXPECT_SECONDS(synchronized(comm), kIssue + 1e-6 + (64 << 20) / 80e9);
  });
}

TEST(SimulatedOverlapTest, TestingLetsTimePassUntilTheMessageIsThere) {
  simulate(2, [](const Communicator& comm) {
    Request request = hop(comm);
    int tests = 1;
    while (!request.test()) ++tests;
    EXPECT_EQ(tests, 1251);  // every 5 us
    EXPECT_SECONDS(comm.device().now(), kIssue * (1 + tests));
  });
}

// The clock runs ahead of a host that has issued much; what the host sees is of its own time.
TEST(SimulatedOverlapTest, AHostSeesNothingOfItsFuture) {
  simulate(2, [](const Communicator& comm) {
    Request request = hop(comm);
    for (int i = 0; i < 1000; ++i) comm.device().compute(1e-3, "ahead");
    EXPECT_FALSE(request.test());
    EXPECT_SECONDS(comm.device().now(), 1002 * kIssue);
    request.wait();
    const Buffer sent = comm.device().allocate_values(8), read = comm.device().allocate_values(8);
    post_pair(comm, "value", comm.next(), whole(sent), comm.prev(), whole(read)).wait();
    EXPECT_LT(comm.device().now(), 0.01) << "the clock is there, the host is not";
    comm.device().synchronize(comm.deadline());
    EXPECT_GT(comm.device().now(), 1);  // the value is behind what was queued
  });
}

TEST(SimulatedTraceTest, TellsKernelsMessagesAndWaits) {
  using Kind = TraceSpan::Kind;
  std::vector<std::tuple<Kind, int, std::string, double, double>> spans;
  const auto trace = [&](const TraceSpan& span) {
    spans.emplace_back(span.kind, span.rank, std::string(span.name), span.start, span.end);
    if (span.kind == Kind::message) {
      EXPECT_EQ(span.peer, 1 - span.rank);
      EXPECT_EQ(span.bytes, 1'000'000'000);
    }
  };
  simulate(2,
           [](const Communicator& comm) {
             Request request = hop(comm);
             comm.device().compute(1e-3, "first");
             request.wait();
             comm.device().compute(2e-3, "second");
           },
           {.trace = trace});
  std::erase_if(spans, [](const auto& span) { return std::get<1>(span) != 0; });
  ASSERT_EQ(spans.size(), 4u);
  const double first = 2 * kIssue + 1.5e-3, arrived = kIssue + kHop;
  const std::tuple<Kind, std::string, double, double> wanted[] = {
      {Kind::kernel, "first", 2 * kIssue, first},
      {Kind::message, "hop", kIssue, arrived},
      {Kind::wait, "hop", first, arrived},
      {Kind::kernel, "second", arrived, arrived + 2e-3}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(std::get<0>(spans[i]), std::get<0>(wanted[i]));
    EXPECT_EQ(std::get<2>(spans[i]), std::get<1>(wanted[i]));
    EXPECT_NEAR(std::get<3>(spans[i]), std::get<2>(wanted[i]), 1e-9);
    EXPECT_NEAR(std::get<4>(spans[i]), std::get<3>(wanted[i]), 1e-9);
  }
}

}  // namespace simulated_overlap_test
}  // namespace ringspan::comm
