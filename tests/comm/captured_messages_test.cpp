// SPDX-License-Identifier: Apache-2.0
// Messages that are part of a graph, on the emulated driver and NCCL: what a launch moves, how it
// goes with messages of the usual kind, and what is refused or fails.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/devices/cuda/graph.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::kDeadline;
using test::pass_on;
using test::queue_check;
using test::queue_write;

constexpr std::int64_t kBlockBytes = 1000;

cuda::CudaDevice& device_of(const Communicator& comm) {
  return dynamic_cast<cuda::CudaDevice&>(comm.device());
}

Slice block(const Communicator& comm) { return whole(comm.device().allocate(kBlockBytes)); }

void expect_refused(const std::string& reason, const std::function<void()>& call) {
  EXPECT_EQ(test::refusal(call), reason);
}

class CapturedMessagesTest : public testing::TestWithParam<int> {
 protected:
  static void launch(const RankFunction& body) {
    const LaunchOptions options{
        .ranks = GetParam(), .deadline = 20, .debug = test::all_checks(GetParam())};
    comm::launch("nccl", options, body);
  }
};

TEST_P(CapturedMessagesTest, MoveWhatIsThereAtEachLaunchAmongMessagesOfTheUsualKind) {
  launch([](const Communicator& comm) {
    const Slice out = block(comm), in = block(comm), kept = block(comm), other = block(comm);
    queue_write(comm, out, 9);
    pass_on(comm, out, in).wait();
    std::vector<std::shared_ptr<bool>> checks{queue_check(comm, in, comm.prev(), 9)};
    cuda::Graph graph(device_of(comm), [&] {
      pass_on(comm, out, in).wait();
      comm.device().copy(kept, in);
    });
    const Traffic before = comm.traffic();
    for (int round = 0; round < 3; ++round) {
      queue_write(comm, out, round);
      if (comm.rank() == round % comm.size())
        test::sleep_in_kernel(comm, std::chrono::milliseconds(20));
      graph.launch();
      checks.push_back(queue_check(comm, kept, comm.prev(), round));
      queue_write(comm, other, round + 20);
      pass_on(comm, other, in).wait();
      checks.push_back(queue_check(comm, in, comm.prev(), round + 20));
    }
    comm.device().synchronize(comm.deadline());
    for (const auto& right : checks) EXPECT_TRUE(*right);
    EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent, comm.size() > 1 ? 6 * kBlockBytes : 0);
  });
}

TEST_P(CapturedMessagesTest, FollowMessagesThatNobodyHasWaitedForYet) {
  launch([](const Communicator& comm) {
    const Slice out = block(comm), in = block(comm), early = block(comm), late = block(comm);
    cuda::Graph graph(device_of(comm), [&] { pass_on(comm, out, in).wait(); });
    queue_write(comm, early, 1);
    queue_write(comm, out, 2);
    Request pending = pass_on(comm, early, late);
    graph.launch();
    const auto launched = queue_check(comm, in, comm.prev(), 2);
    pending.wait();
    const auto waited = queue_check(comm, late, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*launched);
    EXPECT_TRUE(*waited);
  });
}

TEST_P(CapturedMessagesTest, GoAroundARingWhoseBlocksChangeHands) {
  launch([](const Communicator& comm) {
    RingExchange ring(comm, kBlockBytes);
    const Slice out = block(comm);
    std::vector<Slice> seen;
    for (int hop = 0; hop < comm.size(); ++hop) seen.push_back(block(comm));
    cuda::Graph graph(device_of(comm), [&] {
      comm.device().copy(whole(ring.begin()), out);
      for (int hop = 0; hop < comm.size(); ++hop) {
        ring.start(kBlockBytes, kBlockBytes);
        comm.device().copy(seen[hop], whole(ring.block()));
        ring.finish();
      }
    });
    std::vector<std::shared_ptr<bool>> checks;
    for (int round = 0; round < 3; ++round) {
      queue_write(comm, out, round);
      graph.launch();
      for (int hop = 0; hop < comm.size(); ++hop)
        checks.push_back(
            queue_check(comm, seen[hop], (comm.rank() + comm.size() - hop) % comm.size(), round));
    }
    comm.device().synchronize(comm.deadline());
    for (const auto& right : checks) EXPECT_TRUE(*right);
  });
}

// Rows are packed into memory that the graph allocates and releases.
TEST_P(CapturedMessagesTest, AreExchangedAmongAllAlsoAsRows) {
  launch([](const Communicator& comm) {
    constexpr std::int64_t kRows = 5, kRow = 8, kStride = 20;
    std::vector<Slice> out, in;
    for (int peer = 0; peer < comm.size(); ++peer)
      for (auto* slices : {&out, &in})
        slices->push_back({block(comm).buffer, 4, kRows, kRow, kStride});
    cuda::Graph graph(device_of(comm), [&] {
      all_to_all_v(comm, out, in);
      Buffer scratch = comm.device().allocate(kBlockBytes);  // which the graph releases, too
    });
    std::vector<std::shared_ptr<bool>> checks;
    for (int round = 0; round < 3; ++round) {
      for (const Slice& slice : out) queue_write(comm, slice, round);
      graph.launch();
      for (int peer = 0; peer < comm.size(); ++peer)
        checks.push_back(queue_check(comm, in[peer], peer, round));
    }
    comm.device().synchronize(comm.deadline());
    for (const auto& right : checks) EXPECT_TRUE(*right);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CapturedMessagesTest, testing::Values(1, 2, 3, 4),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "ranks"; });

class CapturedMessagesFailureTest : public test::InjectedFaultTest {};

TEST_F(CapturedMessagesFailureTest, AreRefusedOnCudaIpcWhichStaysUsable) {
  launch("cuda_ipc", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = block(comm), in = block(comm), kept = block(comm);
    cuda::Graph graph(device_of(comm), [&] {
      expect_refused(
          "pass_on: messages cannot be part of a graph: on cuda_ipc each waits for a flag of its "
          "own, which rises once; nccl can capture them",
          [&] { pass_on(comm, out, in).wait(); });
      comm.device().copy(kept, in);
    });
    queue_write(comm, out, 1);
    pass_on(comm, out, in).wait();
    graph.launch();
    const auto received = queue_check(comm, kept, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
  });
}

TEST_F(CapturedMessagesFailureTest, WhatTheHostLooksAtIsRefused) {
  launch("nccl", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = block(comm), in = block(comm);
    const Slice values = whole(comm.device().allocate_values(8));
    cuda::Graph graph(device_of(comm), [&] {
      expect_refused("pass_on: values cannot be part of a graph; the host looks at them once",
                     [&] { pass_on(comm, values, values).wait(); });
      Request request = pass_on(comm, out, in);
      expect_refused(
          "capture of pass_on: test() cannot be part of a graph; nothing runs while it is captured",
          [&] { request.test(); });
      request.wait();
    });
    graph.launch();
    expect_refused("a graph with messages cannot be part of another graph",
                   [&] { cuda::Graph(device_of(comm), [&] { graph.launch(); }); });
    comm.device().synchronize(comm.deadline());
  });
}

TEST_F(CapturedMessagesFailureTest, MustBeWaitedForInTheGraph) {
  const auto error = failure_of("nccl", {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = block(comm), in = block(comm);
    Request request;
    EXPECT_THROW(cuda::Graph(device_of(comm), [&] { request = pass_on(comm, out, in); }), Error);
    expect_refused(
        "capture of pass_on: it was posted where a graph was captured, and must be waited for "
        "there",
        [&] { request.wait(); });
  });
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("dropped the pending request"), std::string::npos);
}

TEST_F(CapturedMessagesFailureTest, APeerThatDoesNotLaunchIsNamedByTheDeadline) {
  const auto error =
      failure_of("nccl", {.ranks = 2, .deadline = kDeadline}, [](const Communicator& comm) {
        const Slice out = block(comm), in = block(comm);
        cuda::Graph graph(device_of(comm), [&] { pass_on(comm, out, in).wait(); });
        graph.launch();
        comm.device().synchronize(comm.deadline());
        if (comm.rank() == 1) {  // in the caller's own code
          std::this_thread::sleep_for(std::chrono::duration<double>(10 * kDeadline));
          return;
        }
        graph.launch();
        comm.device().synchronize(comm.deadline());
      });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 1) << error->what();
  EXPECT_NE(std::string(error->what()).find("launch of pass_on"), std::string::npos)
      << error->what();
}

TEST_F(CapturedMessagesFailureTest, APeerThatPostsInsteadIsFoundAtOnce) {
  for (const bool captured : {false, true}) {
    const auto error =
        failure_of("nccl", {.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
          const Slice out = block(comm), in = block(comm);
          std::optional<cuda::Graph> graph;
          const auto hop = [&] { pass_on(comm, out, in).wait(); };
          if (captured || comm.rank() == 0) graph.emplace(device_of(comm), hop);
          comm.rank() == 0 ? graph->launch() : hop();
          comm.device().synchronize(comm.deadline());
        });
    ASSERT_TRUE(error);
    const std::string wanted = captured ? "launch of pass_on" : "capture of pass_on";
    EXPECT_NE(std::string(error->what()).find(wanted), std::string::npos) << error->what();
  }
}

TEST_F(CapturedMessagesFailureTest, AFailureThatACaptureSeesLeavesTheMemoryToTheCaller) {
  std::atomic<bool> captures{false};
  const auto error =
      failure_of("nccl", {.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
        const Slice out = block(comm), in = block(comm);
        if (comm.rank() == 1) {
          captures.wait(false);
          throw Error(ErrorKind::aborted, "enough");
        }
        Recv recvs[] = {{1, block(comm)}};
        comm.post("never_sent", {}, recvs).wait();
        try {
          cuda::Graph(device_of(comm), [&] {
            captures = true;
            captures.notify_all();
            for (;;) pass_on(comm, out, in).wait();
          });
        } catch (const Error&) {
          EXPECT_TRUE(test::compute_stream(comm).idle());
          throw;
        }
      });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "enough");
}

// NCCL's communicator does not end before the graph does, neither well nor after a failure.
TEST_F(CapturedMessagesFailureTest, AGraphThatOutlivesItsLaunchHoldsUpNothing) {
  for (const bool fails : {false, true}) {
    std::vector<std::optional<cuda::Graph>> graphs(2);
    const auto error =
        failure_of("nccl", {.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
          const Slice out = block(comm), in = block(comm);
          const auto start = std::chrono::steady_clock::now();
          auto& graph = graphs[comm.rank()];
          graph.emplace(device_of(comm), [&] { pass_on(comm, out, in).wait(); });
          for (int i = 0; i < 2; ++i) graph->launch();
          if (!fails) return;
          comm.device().synchronize(comm.deadline());
          if (comm.rank() == 1) throw Error(ErrorKind::aborted, "enough");
          try {
            barrier(comm);
          } catch (const Error&) {
            EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
            throw;
          }
        });
    EXPECT_EQ(error.has_value(), fails);
    if (fails) {
      EXPECT_STREQ(error->what(), "enough");
    }
  }
}

}  // namespace
}  // namespace ringspan::comm
