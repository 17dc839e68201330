// SPDX-License-Identifier: Apache-2.0
// How what never ends on a GPU does end, and what fails there is told, on the emulated driver and
// NCCL with injected faults.
#include "tests/comm/streams_failure.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/devices/cuda/graph.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::kDeadline;
using test::pass_on;
using test::queue_kernel;
using Clock = std::chrono::steady_clock;

class StreamsFailureTest : public test::InjectedFaultTest,
                           public testing::WithParamInterface<const char*> {};

TEST_P(StreamsFailureTest, EndsAtSynchronizeWhereBothSidesSendFirst) {
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = kDeadline}, [](const Communicator& comm) {
        Send sends[] = {{comm.next(), whole(comm.device().allocate(8))}};
        Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
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

TEST_P(StreamsFailureTest, NamesWhoeverHasNotPosted) {
  std::atomic<int> others{2};
  const auto error =
      failure_of(GetParam(), {.ranks = 3, .deadline = kDeadline}, [&](const Communicator& comm) {
        while (comm.rank() == 2 && others > 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
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

TEST_P(StreamsFailureTest, TellsAKernelThatNeverEndsFromAPeer) {
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = kDeadline}, [](const Communicator& comm) {
        std::optional<test::Gate> gate;
        if (comm.rank() == 1) gate.emplace(comm);
        pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
        comm.device().synchronize(comm.deadline());
      });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  EXPECT_EQ(error->where().peer, 1) << error->what();
  EXPECT_NE(std::string(error->what()).find("kernels before operation 0"), std::string::npos)
      << error->what();
}

TEST_P(StreamsFailureTest, ReportsAKernelThatFailsAtTheNextLook) {
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
        pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
        if (comm.rank() == 1) emulation_fail("cuEventQuery", 0, 1, 719);
        barrier(comm);
      });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::system);
  EXPECT_NE(std::string(error->what()).find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos);
}

TEST_P(StreamsFailureTest, ReportsMemoryThatIsNotThere) {
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
        barrier(comm);
        comm.device().synchronize(comm.deadline());
        if (comm.rank() == 1) emulation_fail("cuMemAllocAsync", 0, 2, cuda::kErrorOutOfMemory);
        if (comm.rank() == 1) comm.device().allocate(1 << 20);
        barrier(comm);
      });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 1);
}

TEST_P(StreamsFailureTest, FreesAHostThatWaitsForItsStreamByOtherMeans) {
  std::atomic<bool> posted{false};
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
        if (comm.rank() == 1) {
          posted.wait(false);
          throw std::runtime_error("boom");
        }
        Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
        comm.post("never_sent", {}, recvs).wait();
        EXPECT_FALSE(test::compute_stream(comm).idle());
        posted = true;
        posted.notify_all();
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (!test::compute_stream(comm).idle() && Clock::now() < end)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_LT(Clock::now(), end);
      });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1: boom");
}

/// Rank 1 survives what fails in its post, and goes on polling until rank 0 has ended.
void survive(const Communicator& comm, const char* call, std::atomic<bool>& struck,
             const std::atomic<bool>& over) {
  const Slice rows{comm.device().allocate(16), 0, 2, 4, 8};
  const Buffer in = comm.device().allocate(8);
  emulation_fail(call, 0, 1, 3);
  try {
    pass_on(comm, rows, whole(in)).wait();
    comm.device().poll();
  } catch (const Error& error) {
    struck = true;
    EXPECT_EQ(error.where().sequence, 0);
  }
  for (const auto end = Clock::now() + std::chrono::seconds(15); !over && Clock::now() < end;) {
    try {
      comm.device().poll();
    } catch (const Error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(StreamsFailureTest, TellsPeersOfAFailureThatItsRankSurvives) {
  std::vector<const char*> calls{"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
                                 "cuEventQuery", "cuStreamIsCapturing"};
  if (GetParam() == std::string("nccl")) {
    calls.insert(calls.end(), {"cuMemAllocAsync", "ncclGroupEnd"});
  } else {
    calls.insert(calls.end(), {"cuStreamWaitValue32", "cuStreamWriteValue32"});
  }
  for (const char* call : calls) {
    SCOPED_TRACE(call);
    std::atomic<bool> ready{false}, struck{false}, over{false};
    const auto error =
        failure_of(GetParam(), {.ranks = 2, .deadline = 10}, [&](const Communicator& comm) {
          if (comm.rank() == 1) {
            ready.wait(false);
            return survive(comm, call, struck, over);
          }
          const Buffer out = comm.device().allocate(8), in = comm.device().allocate(8);
          ready = true;  // the fault is for the other rank
          ready.notify_all();
          for (const auto end = Clock::now() + std::chrono::seconds(5);
               !struck && Clock::now() < end;)
            std::this_thread::yield();
          try {
            pass_on(comm, whole(out), whole(in)).wait();
            comm.device().synchronize(comm.deadline());
          } catch (const Error& told) {
            EXPECT_EQ(told.where().peer, 1) << told.what();
          }
          over = true;
        });
    EXPECT_TRUE(struck);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::system);
    EXPECT_EQ(error->where().peer, 1);
    EXPECT_EQ(error->where().operation, "pass_on");
  }
}

TEST_P(StreamsFailureTest, ThrowsNoSoonerThanQueuedKernelsEnd) {
  std::atomic<bool> runs{false}, ended{false};
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
        if (comm.rank() == 1) {
          runs.wait(false);
          throw std::runtime_error("boom");
        }
        queue_kernel(comm, [&] {
          runs = true;
          runs.notify_all();
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
          ended = true;
        });
        EXPECT_THROW(comm.device().synchronize(comm.deadline()), Error);
        EXPECT_TRUE(ended);
      });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1: boom");
}

TEST_P(StreamsFailureTest, KeepsWhatAStreamThatDoesNotEndMayUse) {
  std::atomic<bool> over{false}, ran{false};
  testing::internal::CaptureStderr();
  const auto error =
      failure_of(GetParam(), {.ranks = 2, .deadline = 0.1}, [&](const Communicator& comm) {
        if (comm.rank() == 1) queue_kernel(comm, [&] { over.wait(false); });
        pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
        if (comm.rank() == 1) queue_kernel(comm, [&] { ran = true; });
        comm.device().synchronize(comm.deadline());
      });
  ASSERT_TRUE(error);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is kept"), std::string::npos);
  over = true;  // what was queued behind it uses both ranks' memory now
  over.notify_all();
  for (int i = 0; i < 5000 && !ran; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(ran);
}

TEST_P(StreamsFailureTest, RefusesMoreThreadsThanGpus) {
  const auto error = failure_of(GetParam(), {.ranks = 65}, [](const Communicator&) { FAIL(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(
      error->what(),
      GetParam() + std::string(": 65 ranks that are threads need as many GPUs; there are 64"));
}

TEST_P(StreamsFailureTest, OnlyCudaIpcRefusesGpusThatDoNotReachEachOther) {
  emulation_fail("peerAccess", 0, 1'000'000, 1);
  const auto error = failure_of(GetParam(), {.ranks = 2, .deadline = 20}, barrier);
  emulation_fail("peerAccess", 0, 0, 0);
  ASSERT_EQ(error.has_value(), GetParam() == std::string("cuda_ipc"));
  if (error) {
    EXPECT_EQ(error->kind(), ErrorKind::not_available);
    EXPECT_STREQ(error->what(), "cuda_ipc: GPU 0 does not reach GPU 1's memory; use nccl or ucx");
  }
}

TEST_P(StreamsFailureTest, LeavesADeviceThatOutlivesItsLaunchUsable) {
  std::optional<Communicator> kept;
  launch(GetParam(), {.ranks = 1}, [&](const Communicator& comm) { kept = comm; });
  EXPECT_NO_THROW(kept->device().synchronize(1));
}

TEST_P(StreamsFailureTest, LeavesARequestAsItIsWhileAGraphIsCaptured) {
  launch(GetParam(), {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(100)), in = whole(comm.device().allocate(100));
    std::atomic<bool> captured{false};
    queue_kernel(comm, [&] { captured.wait(false); });  // so that the request is pending
    test::queue_write(comm, out, 1);
    Request request = pass_on(comm, out, in);
    const auto expect_refusal = [](const auto& call) {
      try {
        call();
        ADD_FAILURE() << "not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
      }
    };
    const cuda::Graph graph(dynamic_cast<cuda::CudaDevice&>(comm.device()), [&] {
      emulation_fail("cuEventQuery", 0, 1, 719);  // nothing is looked at
      expect_refusal([&] { request.wait(); });
      expect_refusal([&] { request.test(); });
      expect_refusal([&] { comm.device().synchronize(comm.deadline()); });
      comm.device().poll();
      emulation_fail("cuEventQuery", 0, 0, 0);
    });
    captured = true;
    captured.notify_all();
    request.wait();
    const auto received = test::queue_check(comm, in, 0, 1);
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(*received);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamsFailureTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace ringspan::comm
