// SPDX-License-Identifier: Apache-2.0
// What differs where messages move in the order of streams, on the emulated driver and NCCL: what a
// wait means, and how long memory lives.

#include "tests/comm/streams.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/devices/cuda/kernel_span.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm {
namespace {

using test::pass_on;
using test::queue_check;
using test::queue_kernel;
using test::queue_write;
using test::sleep_in_kernel;

constexpr std::int64_t kBytes = 1000;
constexpr auto kSlow = std::chrono::milliseconds(150);
constexpr double kOrigin = 0.02;  // seconds: how well a busy host knows when a GPU's time began

class StreamsTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamsTest, OrdersTheComputeStreamBehindMessagesWithoutBlockingTheHost) {
  launch(GetParam(), {.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    pass_on(comm, out, in).wait();  // connected from here on
    barrier(comm);
    test::Gate gate(comm);
    sleep_in_kernel(comm, kSlow);  // so that what is sent before the kernels end is the old
    queue_write(comm, out, 1);
    pass_on(comm, out, in).wait();
    const auto received = queue_check(comm, in, comm.prev(), 1);
    gate.open();  // a host that waited for the stream would not get here
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
  });
}

TEST_P(StreamsTest, KeepsWhatWasSentUntilASlowReceiverHasIt) {
  launch(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    queue_write(comm, out, 1);
    if (comm.rank() == 1) sleep_in_kernel(comm, kSlow);
    pass_on(comm, out, in).wait();
    queue_write(comm, out, 2);  // overwritten behind the wait
    const auto received = queue_check(comm, in, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
  });
}

TEST_P(StreamsTest, LetsGoOfMemoryInTheOrderOfTheStream) {
  launch(GetParam(), {.ranks = 2, .deadline = 20, .debug = {.poison = true}},
         [](const Communicator& comm) {
           const Slice kept = whole(comm.device().allocate(kBytes));
           sleep_in_kernel(comm, kSlow);
           {
             const Slice out = whole(comm.device().allocate(kBytes)),
                         in = whole(comm.device().allocate(kBytes));
             queue_write(comm, out, 1);
             pass_on(comm, out, in).wait();
             comm.device().copy(kept, in);
           }
           EXPECT_EQ(comm.device().memory().current, kBytes);
           const auto received = queue_check(comm, kept, comm.prev(), 1);
           comm.device().synchronize(comm.deadline());
           EXPECT_TRUE(*received);
         });
  for (int i = 0; i < 10'000 && emulation_allocations() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // streams end by themselves
  EXPECT_EQ(emulation_allocations(), 0);
}

TEST_P(StreamsTest, TurnsARingBehindKernelsOfAnySpeed) {
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    launch(GetParam(), {.ranks = ranks, .deadline = 20, .debug = test::all_checks(ranks)},
           [](const Communicator& comm) {
             RingExchange ring(comm, kBytes);
             queue_write(comm, whole(ring.begin()), 0);
             std::vector<std::shared_ptr<bool>> checks;
             for (int hop = 0; hop <= comm.size(); ++hop) {
               sleep_in_kernel(comm, std::chrono::microseconds((7 * comm.rank() + hop) % 5 * 300));
               if (hop < comm.size()) ring.start(kBytes, kBytes);
               const int owner = (comm.rank() + (comm.size() - hop % comm.size())) % comm.size();
               checks.push_back(queue_check(comm, slice(ring.block(), 0, kBytes), owner, 0));
               if (hop < comm.size()) ring.finish();
             }
             comm.device().synchronize(comm.deadline());
             for (const auto& right : checks) EXPECT_TRUE(*right);
           });
  }
}

TEST_P(StreamsTest, TellsWhenTheGpuHasDoneWhatWasQueued) {
  constexpr double kNear = 1e-4;  // seconds: times are single precision
  std::vector<TraceSpan> spans[2];
  LaunchOptions options{.ranks = 2, .deadline = 20};
  options.trace = [&](const TraceSpan& span) { spans[span.rank].push_back(span); };
  launch(GetParam(), options, [&](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    pass_on(comm, out, in).wait();  // connected from here on
    comm.device().synchronize(comm.deadline());
    spans[comm.rank()].clear();
    const double start = comm.device().now();
    {
      const cuda::KernelSpan span(dynamic_cast<cuda::CudaDevice&>(comm.device()), "slow");
      if (comm.rank() == 1) sleep_in_kernel(comm, kSlow);
    }
    pass_on(comm, out, in).wait();
    comm.device().synchronize(comm.deadline());
    const double end = comm.device().now(), slow = std::chrono::duration<double>(kSlow).count();
    const auto& own = spans[comm.rank()];
    ASSERT_EQ(own.size(), 3);
    const TraceSpan &kernel = own[0], &message = own[1], &wait = own[2];
    EXPECT_EQ(kernel.kind, TraceSpan::Kind::kernel);
    EXPECT_GE(kernel.start, start - kOrigin);
    EXPECT_GE(kernel.end - kernel.start, comm.rank() == 1 ? slow - kNear : 0);
    EXPECT_EQ(message.kind, TraceSpan::Kind::message);
    EXPECT_EQ(message.peer, comm.next());
    EXPECT_EQ(message.bytes, kBytes);
    EXPECT_GE(message.start, kernel.end - kNear);
    EXPECT_EQ(wait.kind, TraceSpan::Kind::wait);
    EXPECT_GE(wait.start, kernel.end - kNear);
    EXPECT_GE(wait.end, message.end - kNear);
    EXPECT_LE(wait.end, end + kOrigin);
  });
  // Neither message ends before the slow kernel, whenever each host queued its own.
  for (const auto& own : spans) EXPECT_GE(own.at(1).end, spans[1].at(0).end - kOrigin);
}

TEST_P(StreamsTest, TellsTimesOfTheHostWhereTheClockOfTheGpuDrifts) {
  std::vector<TraceSpan> spans;
  LaunchOptions options{.ranks = 1, .deadline = 20};
  options.trace = [&](const TraceSpan& span) { spans.push_back(span); };
  emulation_fail("eventClock", 0, 1000, 100);  // twice as fast
  launch(GetParam(), options, [&](const Communicator& comm) {
    std::this_thread::sleep_for(kSlow);
    const double synchronized = comm.device().now();
    comm.device().synchronize(comm.deadline());
    const double start = comm.device().now();
    { const cuda::KernelSpan span(dynamic_cast<cuda::CudaDevice&>(comm.device()), "short"); }
    comm.device().synchronize(comm.deadline());
    ASSERT_EQ(spans.size(), 1);
    const double end = comm.device().now();
    EXPECT_GE(spans[0].start, start - kOrigin);
    EXPECT_LE(spans[0].end, end + (end - synchronized) + kOrigin);
  });
  emulation_fail("eventClock", 0, 0, 0);
}

TEST_P(StreamsTest, TellsEachWaitAlsoForMessagesThatHaveArrived) {
  std::vector<TraceSpan> waits[2];
  LaunchOptions options{.ranks = 2, .deadline = 20};
  options.trace = [&](const TraceSpan& span) {
    if (span.kind == TraceSpan::Kind::wait) waits[span.rank].push_back(span);
  };
  launch(GetParam(), options, [&](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    Request early = pass_on(comm, out, in);
    pass_on(comm, out, in).wait();
    comm.device().synchronize(comm.deadline());
    ASSERT_EQ(waits[comm.rank()].size(), 1);
    pass_on(comm, out, in).wait();  // behind `early`, which is seen to be over
    comm.device().synchronize(comm.deadline());
    early.wait();
    comm.device().synchronize(comm.deadline());
    ASSERT_EQ(waits[comm.rank()].size(), 3);
    EXPECT_EQ(waits[comm.rank()].back().start, waits[comm.rank()].back().end);
  });
}

TEST_P(StreamsTest, LetsKernelsUseWhatAnAllToAllBringsOnceItIsFinished) {
  launch(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    std::vector<Slice> out, in;
    for (int peer = 0; peer < comm.size(); ++peer) {
      out.push_back(whole(comm.device().allocate(1000 * comm.rank() + 100 * peer)));
      in.push_back(whole(comm.device().allocate(1000 * peer + 100 * comm.rank())));
    }
    AllToAll exchange(comm, out, in);
    std::vector<std::shared_ptr<bool>> checks;
    for (int round = 0; round < 3; ++round) {
      sleep_in_kernel(comm, kSlow / 5 * ((comm.rank() + round) % 2));
      for (const Slice& slice : out) queue_write(comm, slice, round);
      exchange.start();
      exchange.finish();
      for (int peer = 0; peer < comm.size(); ++peer)
        checks.push_back(queue_check(comm, in[peer], peer, round));
    }
    comm.device().synchronize(comm.deadline());
    for (const auto& right : checks) EXPECT_TRUE(*right);
  });
}

TEST_P(StreamsTest, ReducesInTheOrderOfTheStream) {
  launch(GetParam(), {.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    constexpr std::int64_t kCount = 600'001;  // several pieces
    const Slice data = whole(comm.device().allocate(kCount * 4));
    sleep_in_kernel(comm, kSlow);
    float* const values = reinterpret_cast<float*>(data.data());
    queue_kernel(comm, [=, rank = comm.rank()] {
      for (std::int64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 100 + rank);
    });
    all_reduce(comm, data, Element::f32);
    const auto wrong = std::make_shared<std::int64_t>(0);
    queue_kernel(comm, [=] {
      for (std::int64_t i = 0; i < kCount; ++i) *wrong += values[i] != 3.0F * (i % 100) + 3;
    });
    comm.device().synchronize(comm.deadline());
    EXPECT_EQ(*wrong, 0);
  });
}

TEST_P(StreamsTest, HasReceivedValuesWhenTheWaitReturns) {
  launch(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate_values(8)),
                in = whole(comm.device().allocate_values(8));
    test::write_pattern(out, comm.rank(), 0, 3);
    sleep_in_kernel(comm, kSlow);
    pass_on(comm, out, in).wait();
    EXPECT_TRUE(test::has_pattern(in, comm.prev(), 0, 3));
  });
}

TEST_P(StreamsTest, KeepsMemoryThatTheCallerBringsUntilItHasBeenSent) {
  launch(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const auto memory = std::make_shared<std::vector<std::byte>>(kBytes);
    const auto released = std::make_shared<bool>(false);
    Slice out = whole(Buffer(memory->data(), kBytes, [memory, released] {
      std::fill(memory->begin(), memory->end(), std::byte{0});
      *released = true;
    }));
    const Slice in = whole(comm.device().allocate(kBytes));
    queue_write(comm, out, 1);
    if (comm.rank() == 1) sleep_in_kernel(comm, kSlow);
    pass_on(comm, out, in).wait();
    out = {};
    const auto received = queue_check(comm, in, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
    EXPECT_TRUE(*released);
  });
}

TEST(StreamsRoomTest, MoreMessagesThanThereIsRoomForAreRefusedBeforeAnythingMoves) {
  launch("cuda_ipc", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    for (int byte = 0; byte < 257; ++byte) {
      sends.push_back({comm.next(), slice(out.buffer, byte, 1)});
      recvs.push_back({comm.prev(), slice(in.buffer, byte, 1)});
    }
    const auto expect_refusal = [&](std::span<Send> out, std::span<Recv> in) {
      try {
        comm.post("many", out, in).wait();
        ADD_FAILURE() << "not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::not_available);
        EXPECT_STREQ(error.what(),
                     "many: 257 messages from one rank to another; in one operation 256 can be");
      }
    };
    expect_refusal(sends, {});
    expect_refusal({}, recvs);
    EXPECT_EQ(comm.traffic().messages_sent, 0);
    sends.pop_back();
    recvs.pop_back();
    comm.post("many", sends, recvs).wait();
    queue_write(comm, out, 1);
    pass_on(comm, out, in).wait();
    const auto received = queue_check(comm, in, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamsTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace ringspan::comm
