// SPDX-License-Identifier: Apache-2.0
// The stream and the memory that a caller brings for each rank, on the emulated driver and NCCL.
#include "comm/gpu_resources.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "tests/comm/callers_gpu.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::CallersGpu;
using test::failure_of;
using test::has_pattern;
using test::pass_on;
using test::write_pattern;

constexpr std::int64_t kBlock = 1000;
constexpr auto kShort = std::chrono::milliseconds(50);

class GpuResourcesTest : public testing::TestWithParam<const char*> {
 protected:
  LaunchOptions options(int ranks) {
    while (static_cast<int>(callers_.size()) < ranks) callers_.emplace_back(callers_.size());
    LaunchOptions options{.ranks = ranks, .deadline = 20};
    options.gpu_resources = [this](int rank) { return callers_[rank].resources(); };
    return options;
  }

  void expect_all_returned() {
    for (CallersGpu& caller : callers_) {
      EXPECT_GT(caller.taken(), 1);
      EXPECT_EQ(caller.live(), 0);
      EXPECT_TRUE(caller.on_its_stream());
    }
    EXPECT_EQ(emulation_streams(), static_cast<long>(callers_.size()));
  }

  std::deque<CallersGpu> callers_;  // [rank]
};

INSTANTIATE_TEST_SUITE_P(Transports, GpuResourcesTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });

// Whatever the caller queues there comes before the messages that are posted later, and after those
// that were waited for.
TEST_P(GpuResourcesTest, TheCallersStreamOrdersItsOwnWorkAndTheMessages) {
  launch(GetParam(), options(3), [&](const Communicator& comm) {
    const CallersGpu& caller = callers_[comm.rank()];
    const Slice out = whole(comm.device().allocate(kBlock)),
                in = whole(comm.device().allocate(kBlock));
    barrier(comm);  // connected from here on
    test::Gate gate(comm);
    caller.queue([out = test::borrowed(out), rank = comm.rank()] {
      std::this_thread::sleep_for(kShort);
      write_pattern(out, rank, 0, 1);
    });
    pass_on(comm, out, in).wait();
    bool received = false;
    caller.queue([&, in = test::borrowed(in)] {
      received = static_cast<bool>(has_pattern(in, comm.prev(), 0, 1));
    });
    gate.open();  // a host that waited for the stream would not get here
    comm.device().synchronize(comm.deadline());
    EXPECT_TRUE(received);
  });
  expect_all_returned();
}

TEST_P(GpuResourcesTest, TheRanksEndWaitsForWhatTheCallerHasQueued) {
  bool ran = false;
  launch(GetParam(), options(1), [&](const Communicator&) {
    callers_[0].queue([&] {
      std::this_thread::sleep_for(kShort);
      ran = true;
    });
  });
  EXPECT_TRUE(ran);
}

// Its stream is never idle.
TEST_P(GpuResourcesTest, AnotherThreadOfTheCallersMayQueueOnForEver) {
  static constexpr int kAhead = 8;
  LaunchOptions mine = options(1);
  mine.deadline = 4;
  const auto ran = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> over = false;
  std::thread other([&] {
    for (int queued = 0; !over;) {
      for (; queued < *ran + kAhead; ++queued) {
        callers_[0].queue([ran] {
          std::this_thread::sleep_for(kShort / kAhead);
          ++*ran;
        });
      }
      std::this_thread::sleep_for(kShort / kAhead / 4);
    }
  });
  const auto run = [&](bool fails) {
    const auto start = std::chrono::steady_clock::now();
    const auto error = failure_of(GetParam(), mine, [&](const Communicator& comm) {
      const Slice out = whole(comm.device().allocate(kBlock)),
                  in = whole(comm.device().allocate(kBlock));
      pass_on(comm, out, in).wait();
      comm.device().synchronize(comm.deadline());
      if (fails) throw std::runtime_error("boom");
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    EXPECT_EQ(emulation_streams(), 1);  // nothing is kept
    return std::string(error ? error->what() : "no error");
  };
  EXPECT_EQ(run(false), "no error");
  EXPECT_EQ(run(true), "rank 0: boom");
  over = true;
  other.join();
}

TEST_P(GpuResourcesTest, DeviceMemoryIsTheCallers) {
  launch(GetParam(), options(2), [&](const Communicator& comm) {
    const CallersGpu& caller = callers_[comm.rank()];
    const Slice out = whole(comm.device().allocate(kBlock));
    EXPECT_TRUE(caller.holds(out.data()));
    EXPECT_EQ(comm.device().memory().current, kBlock);
    Slice in = whole(comm.device().allocate(kBlock));
    const std::byte* const memory = in.data();
    barrier(comm);
    test::Gate gate(comm);
    pass_on(comm, out, in).wait();
    in = {};
    EXPECT_TRUE(caller.holds(memory));  // others may write it
    gate.open();
    comm.device().synchronize(comm.deadline());
    EXPECT_FALSE(caller.holds(memory));
  });
  expect_all_returned();
}

TEST_P(GpuResourcesTest, AStreamMayComeWithoutMemory) {
  LaunchOptions mine = options(2);
  mine.debug.reachable = true;
  mine.gpu_resources = [this](int rank) {
    return GpuResources{.compute_stream = callers_[rank].stream().handle()};
  };
  launch(GetParam(), mine, [&](const Communicator& comm) {
    EXPECT_EQ(test::compute_stream(comm).handle(), callers_[comm.rank()].stream().handle());
    EXPECT_EQ(all_reduce(comm, 1.5, Reduction::sum), 3);
  });
  EXPECT_EQ(emulation_streams(), 2);
}

TEST_P(GpuResourcesTest, EverythingReturnsAfterAFailure) {
  const auto error = failure_of(GetParam(), options(3), [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBlock)),
                in = whole(comm.device().allocate(kBlock));
    barrier(comm);
    if (comm.rank() == 1) throw std::runtime_error("boom");
    pass_on(comm, out, in).wait();
    comm.device().synchronize(comm.deadline());
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1: boom");
  expect_all_returned();
}

TEST_P(GpuResourcesTest, WhatCannotBeUsedIsRefusedOnAllRanks) {
  using Change = std::function<void(LaunchOptions&, GpuResources&)>;
  const auto refusal = [&](const Change& change) {
    LaunchOptions mine = options(2);
    GpuResources second = callers_[1].resources();
    change(mine, second);
    mine.gpu_resources = [&](int rank) { return rank == 1 ? second : callers_[0].resources(); };
    const auto error = failure_of(GetParam(), mine, [](const Communicator& comm) {
      comm.device().allocate(kBlock);
      barrier(comm);
    });
    return std::string(error ? error->what() : "no error");
  };
  EXPECT_EQ(
      refusal([&](auto&, auto& mine) { mine.compute_stream = callers_[0].stream().handle(); }),
      "rank 1: gpu_resources: the compute stream is none of GPU 1");
  for (const std::uintptr_t handle : {1, 2})  // cudaStreamLegacy, cudaStreamPerThread
    EXPECT_EQ(
        refusal([&](auto&, auto& mine) { mine.compute_stream = reinterpret_cast<void*>(handle); }),
        "rank 1: gpu_resources: a default stream cannot be brought; make one "
        "(cudaStreamCreateWithFlags) and use it");
  EXPECT_EQ(refusal([](auto&, auto& mine) { mine.release = {}; }),
            "rank 1: gpu_resources: allocate and release come together");
  EXPECT_NE(refusal([](auto& options, auto&) {
              options.debug.reachable = true;
            }).find("gpu_resources brings memory, and debug.reachable asks for the host's"),
            std::string::npos);
  EXPECT_EQ(refusal([](auto&, auto& mine) {
              mine.allocate = [](auto, auto) { return reinterpret_cast<void*>(4104); };
              mine.release = [](auto, auto, auto) {};
            }),
            "allocate: gpu_resources brings memory at 0x1008, which is not aligned to 64 bytes");
  EXPECT_EQ(refusal([](auto&, auto& mine) { mine.allocate = [](auto, auto) { return nullptr; }; }),
            "allocate: no 1 bytes of device memory");
}

TEST_P(GpuResourcesTest, NamesTheRankForWhichTheCallerHasNone) {
  LaunchOptions mine = options(2);
  mine.gpu_resources = [&](int rank) {
    if (rank == 1) throw std::runtime_error("out of streams");
    return callers_[rank].resources();
  };
  const auto error = failure_of(GetParam(), mine, [](const Communicator&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::not_available);
  EXPECT_STREQ(error->what(), "rank 1: gpu_resources: out of streams");
}

TEST(GpuResourcesRefusalTest, RanksOnTheHostHaveNoUseForThem) {
  LaunchOptions options{.ranks = 2};
  options.gpu_resources = [](int) { return GpuResources{}; };
  const auto error = failure_of("threads", options, [](const Communicator&) { FAIL(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_STREQ(
      error->what(),
      "launch: gpu_resources is for ranks on GPUs; those of transport 'threads' are on the "
      "host");
}

}  // namespace
}  // namespace ringspan::comm
