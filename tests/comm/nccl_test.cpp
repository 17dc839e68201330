// SPDX-License-Identifier: Apache-2.0
// What differs where messages move in the order of streams, on the emulated driver and NCCL: what a
// wait means, how long memory lives, and how what never ends does end.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/nccl_streams.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm {
namespace {

using test::queue_check;
using test::queue_kernel;
using test::queue_write;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBytes = 1000;
constexpr auto kSlow = std::chrono::milliseconds(60);

void sleep_in_kernel(const Communicator& comm, std::chrono::microseconds time) {
  queue_kernel(comm, [time] { std::this_thread::sleep_for(time); });
}

std::optional<Error> failure_of(const LaunchOptions& options, const RankFunction& body) {
  try {
    launch("nccl", options, body);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

Request pass_on(const Communicator& comm, const Slice& out, const Slice& in) {
  Send sends[] = {{comm.next(), out}};
  Recv recvs[] = {{comm.prev(), in}};
  return comm.post("pass_on", sends, recvs);
}

/// No fault outlives its test.
class NcclTest : public testing::Test {
 protected:
  ~NcclTest() override {
    for (const char* call : {"ncclKernel", "asyncError", "ncclVersion", "driverVersion", "cuInit",
                             "cuEventQuery", "cuMemAllocAsync", "ncclGroupEnd"})
      emulation_fail(call, 0, 0, 0);
  }
};

TEST_F(NcclTest, OrdersTheComputeStreamBehindMessagesWithoutBlockingTheHost) {
  launch("nccl", {.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    pass_on(comm, out, in).wait();  // connected from here on
    barrier(comm);
    const auto start = Clock::now();
    sleep_in_kernel(comm, kSlow);
    queue_write(comm, out, 1);
    pass_on(comm, out, in).wait();
    const auto received = queue_check(comm, in, comm.prev(), 1);
    EXPECT_LT(Clock::now() - start, kSlow);
    comm.device().synchronize(comm.deadline());
    EXPECT_GE(Clock::now() - start, kSlow);
    EXPECT_TRUE(*received);
  });
}

TEST_F(NcclTest, KeepsWhatWasSentUntilASlowReceiverHasIt) {
  launch("nccl", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
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

TEST_F(NcclTest, LetsGoOfMemoryInTheOrderOfTheStream) {
  launch("nccl", {.ranks = 2, .deadline = 20, .debug = {.poison = true}},
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
  for (int i = 0; i < 1000 && emulation_allocations() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // streams end by themselves
  EXPECT_EQ(emulation_allocations(), 0);
}

TEST_F(NcclTest, TurnsARingBehindKernelsOfAnySpeed) {
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    launch("nccl", {.ranks = ranks, .deadline = 20, .debug = test::all_checks(ranks)},
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

TEST_F(NcclTest, ReducesInTheOrderOfTheStream) {
  launch("nccl", {.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
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

TEST_F(NcclTest, HasReceivedValuesWhenTheWaitReturns) {
  launch("nccl", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate_values(8)),
                in = whole(comm.device().allocate_values(8));
    test::write_pattern(out, comm.rank(), 0, 3);
    sleep_in_kernel(comm, kSlow);
    pass_on(comm, out, in).wait();
    EXPECT_TRUE(test::has_pattern(in, comm.prev(), 0, 3));
  });
}

TEST_F(NcclTest, EndsAtSynchronizeWhereBothSidesSendFirst) {
  const auto error = failure_of({.ranks = 2, .deadline = 0.1}, [](const Communicator& comm) {
    const Buffer buffer = comm.device().allocate(8);
    Send sends[] = {{comm.next(), whole(buffer)}};
    Recv recvs[] = {{comm.prev(), whole(buffer)}};
    comm.post("send_first", sends, {}).wait();  // neither wait blocks the host
    comm.post("send_first", {}, recvs).wait();
    comm.device().synchronize(comm.deadline());
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(error->what()).find("operation 0, send_first: posted by all"),
            std::string::npos)
      << error->what();
}

TEST_F(NcclTest, NamesWhoeverHasNotPosted) {
  std::atomic<int> others{2};
  const auto error = failure_of({.ranks = 3, .deadline = 0.1}, [&](const Communicator& comm) {
    while (comm.rank() == 2 && others > 0) std::this_thread::sleep_for(kSlow);
    if (comm.rank() == 2) return;
    try {
      pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
      comm.device().synchronize(comm.deadline());
    } catch (const Error&) {
      --others;
      throw;
    }
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 2) << error->what();
}

TEST_F(NcclTest, AbortsAGroupThatNeverEnds) {
  emulation_fail("ncclKernel", 0, 1, 1);
  const auto start = Clock::now();
  const auto error = failure_of({.ranks = 2, .deadline = 0.1}, [](const Communicator& comm) {
    pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
    comm.device().synchronize(comm.deadline());
  });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
}

TEST_F(NcclTest, TellsAKernelThatNeverEndsFromAPeer) {
  std::atomic<bool> over{false};
  const auto error = failure_of({.ranks = 2, .deadline = 0.1}, [&](const Communicator& comm) {
    if (comm.rank() == 1) queue_kernel(comm, [&] { over.wait(false); });
    pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
    try {
      comm.device().synchronize(comm.deadline());
    } catch (const Error&) {
      over = true;
      over.notify_all();
      throw;
    }
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  EXPECT_EQ(error->where().peer, 1) << error->what();
  EXPECT_NE(std::string(error->what()).find("kernels before operation 0"), std::string::npos)
      << error->what();
}

TEST_F(NcclTest, ReportsWhatNcclSaysOfAPeer) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    barrier(comm);
    if (comm.rank() == 0) emulation_fail("asyncError", 0, 1, 6);
    Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
    comm.post("never_sent", {}, recvs).wait();
    comm.device().synchronize(comm.deadline());
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::peer_failed);
  EXPECT_NE(std::string(error->what()).find("remote process exited"), std::string::npos);
}

TEST_F(NcclTest, ReportsAKernelThatFailsAtTheNextLook) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
    if (comm.rank() == 1) emulation_fail("cuEventQuery", 0, 1, 719);
    barrier(comm);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::system);
  EXPECT_NE(std::string(error->what()).find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos);
}

TEST_F(NcclTest, ReportsMemoryThatIsNotThere) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 1) emulation_fail("cuMemAllocAsync", 0, 1, 2);
    if (comm.rank() == 1) comm.device().allocate(8);
    barrier(comm);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 1);
}

TEST_F(NcclTest, FreesAHostThatWaitsForItsStreamByOtherMeans) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    barrier(comm);
    if (comm.rank() == 1) throw std::runtime_error("boom");
    Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
    comm.post("never_sent", {}, recvs).wait();
    const auto end = Clock::now() + std::chrono::seconds(10);
    while (!test::compute_stream(comm).idle() && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LT(Clock::now(), end);
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1: boom");
}

TEST_F(NcclTest, SeesThatPostsFailAndThatConnectingTakesTooLong) {
  emulation_fail("ncclGroupEnd", 0, 1, 3);
  const auto post = failure_of({.ranks = 2, .deadline = 20}, barrier);
  ASSERT_TRUE(post);
  EXPECT_EQ(post->kind(), ErrorKind::system);
  EXPECT_NE(std::string(post->what()).find("ncclGroupEnd"), std::string::npos) << post->what();
  emulation_fail("asyncError", 0, 1'000'000'000, 7);
  const auto connect = failure_of({.ranks = 2, .deadline = 0.1}, barrier);
  ASSERT_TRUE(connect);
  EXPECT_EQ(connect->kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(connect->what()).find("NCCL to connect"), std::string::npos);
}

TEST_F(NcclTest, SaysWhyItIsNotAvailable) {
  const auto reason = [] { return backend("nccl").unavailable(); };
  EXPECT_EQ(reason(), "");
  emulation_fail("cuInit", 0, 1, 100);
  EXPECT_EQ(reason(), "no CUDA device");
  emulation_fail("driverVersion", 0, 1, 11080);
  EXPECT_EQ(reason(), "the CUDA driver is for CUDA 11.8; 12.0 is needed");
  emulation_fail("ncclVersion", 0, 2, 21703);
  EXPECT_EQ(reason(), "NCCL is version 2.17.3; 2.18.0 is needed");
  const auto error = failure_of({.ranks = 65}, [](const Communicator&) { FAIL(); });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "nccl: 65 ranks need as many GPUs; there are 64");
  EXPECT_EQ(
      failure_of({.ranks = 2, .hop = Hop::reference}, [](const Communicator&) { FAIL(); })->kind(),
      ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace ringspan::comm
