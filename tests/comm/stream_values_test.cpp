// SPDX-License-Identifier: Apache-2.0
// What becomes of memory, above all of values, that is let go of while a GPU of another rank waits,
// or while a graph is captured, on the emulated driver and NCCL.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/devices/cuda/graph.hpp"
#include "comm/devices/cuda/reachable_memory.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;

class StreamValuesTest : public testing::TestWithParam<const char*> {};

// Freeing them would wait for the other rank's GPU, and that one for what this thread is to post.
TEST_P(StreamValuesTest, AreLetGoOfWhileAnotherRankWaitsForThisOne) {
  std::atomic<bool> waits{false};
  for (const bool reachable : {false, true}) {
    SCOPED_TRACE(reachable);
    waits = false;
    const LaunchOptions options{.ranks = 2, .deadline = 10, .debug = {.reachable = reachable}};
    const auto error = failure_of(GetParam(), options, [&](const Communicator& comm) {
      const Slice block = whole(comm.device().allocate(8));
      barrier(comm);  // connected from here on
      if (comm.rank() == 0) {
        waits.wait(false);
        comm.device().allocate_values(8);
        comm.device().allocate(8);
        Send sends[] = {{1, block}};
        comm.post("late", sends, {}).wait();
      } else {
        Recv recvs[] = {{0, block}};
        comm.post("late", {}, recvs).wait();
        waits = true;
        waits.notify_all();
      }
      comm.device().synchronize(comm.deadline());
    });
    EXPECT_FALSE(error) << error->what();
  }
}

TEST_P(StreamValuesTest, AreUsedAgain) {
  launch(GetParam(), {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const auto round = [&] { return all_reduce(comm, 1.0, Reduction::sum); };
    for (int i = 0; i < 3; ++i) round();
    barrier(comm);
    const long before = emulation_host_allocations();
    barrier(comm);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(round(), 2);
    barrier(comm);
    EXPECT_EQ(emulation_host_allocations(), before);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamValuesTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });

/// A device of its own, of the driver's pool.
class CapturedMemoryTest : public testing::Test {
 protected:
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "not refused";
  }

  const std::shared_ptr<const cuda::Gpu> gpu_ =
      std::make_shared<const cuda::Gpu>(cuda::load_cuda(), 0);
};

TEST_F(CapturedMemoryTest, IsLetGoOfWhileAGraphIsCaptured) {
  const long host = emulation_host_allocations(), device_memory = emulation_allocations();
  for (const bool reachable : {false, true}) {
    SCOPED_TRACE(reachable);
    cuda::DeviceOptions options;
    options.poison = true;
    if (reachable) options.allocator = cuda::reachable_memory(gpu_);
    cuda::CudaDevice device(gpu_, options);
    const Slice to = whole(device.allocate(8)), from = whole(device.allocate(8));
    Buffer values = device.allocate_values(100), memory = device.allocate(100);
    cuda::Graph graph(device, [&] {
      values = {};
      memory = {};
      device.copy(to, from);
    });
    for (int i = 0; i < 2; ++i) graph.launch();
    device.synchronize(20);
    const long before = emulation_host_allocations();
    device.allocate_values(100);  // of the memory that was let go of
    EXPECT_EQ(emulation_host_allocations(), before);
  }
  EXPECT_EQ(emulation_host_allocations(), host);
  for (int i = 0; i < 10'000 && emulation_allocations() > device_memory; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(emulation_allocations(), device_memory);
}

TEST_F(CapturedMemoryTest, RefusesWhatNoGraphCanHoldAndLeavesTheGraphUsable) {
  cuda::CudaDevice device(gpu_, {});
  const Slice to = whole(device.allocate(8)), from = whole(device.allocate(8));
  cuda::Graph graph(device, [&] {
    EXPECT_EQ(refusal([&] { device.allocate_values(100); }),
              "allocate: 100 bytes of the host cannot be part of a graph; allocate them before");
    EXPECT_EQ(refusal([&] { device.reduce(to, from, Element::f32, Reduction::sum); }),
              "reduce: it goes by the host, and cannot be part of a graph");
    device.copy(to, from);
  });
  for (int i = 0; i < 2; ++i) graph.launch();
  device.synchronize(20);
}

}  // namespace
}  // namespace ringspan::comm
