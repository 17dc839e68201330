// SPDX-License-Identifier: Apache-2.0
// What becomes of idle blocks of cuda_ipc's pool when the driver has no memory left, and of memory
// whose device goes.
#include <atomic>
#include <chrono>
#include <thread>

#include "comm/devices/cuda/graph.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::queue_kernel;

using CudaIpcMemoryTest = test::InjectedFaultTest;

TEST_F(CudaIpcMemoryTest, IdleBlocksOfOtherSizesGoBackWhenMemoryIsOut) {
  launch("cuda_ipc", {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
    const Buffer used = comm.device().allocate(3000);
    for (const int bytes : {1000, 5000, 100'000}) comm.device().allocate(bytes);
    const long before = emulation_allocations();
    std::atomic<bool> ran{false};
    queue_kernel(comm, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ran = true;
    });
    emulation_fail("cuMemAllocAsync", 0, 1, cuda::kErrorOutOfMemory);
    const Buffer large = comm.device().allocate(1'000'000);
    EXPECT_TRUE(ran);  // nothing that is queued uses them
    EXPECT_LE(emulation_allocations(), before - 3 + 1);
    emulation_fail("cuMemAllocAsync", 0, 1, cuda::kErrorOutOfMemory);
    EXPECT_THROW(comm.device().allocate(2'000'000), Error);  // now there is nothing to give back
    EXPECT_NO_THROW(comm.device().allocate(2'000'000));
  });
}

TEST_F(CudaIpcMemoryTest, NothingGoesBackAfterAFailure) {
  const auto error =
      failure_of("cuda_ipc", {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
        comm.device().allocate(1000);
        const long before = emulation_allocations();
        comm.abort(Error(ErrorKind::aborted, "enough"));
        emulation_fail("cuMemAllocAsync", 0, 1, cuda::kErrorOutOfMemory);
        EXPECT_THROW(comm.device().allocate(1'000'000), Error);
        EXPECT_EQ(emulation_allocations(), before);
      });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "enough");
}

TEST_F(CudaIpcMemoryTest, NoBlockIsMadeWhileAGraphIsCaptured) {
  launch("cuda_ipc", {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
    comm.device().allocate(1000);
    const cuda::Graph graph(dynamic_cast<cuda::CudaDevice&>(comm.device()), [&] {
      EXPECT_NO_THROW(comm.device().allocate(1000));
      EXPECT_THROW(comm.device().allocate(5000), Error);
    });
    EXPECT_NO_THROW(comm.device().allocate(5000));
  });
}

// As after a failure, where what the device lets go of itself is still queued when it goes.
TEST_F(CudaIpcMemoryTest, ValuesGoWithADeviceWhoseStreamIsAboutToEnd) {
  const auto gpu = std::make_shared<const cuda::Gpu>(cuda::load_cuda(), 0);
  const long before = emulation_host_allocations();
  {
    cuda::CudaDevice device(gpu, {});
    const Buffer values = device.allocate_values(100);
    const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    gpu->check(gpu->api().launch_host_function(device.compute().handle(), nap, nullptr), "kernel");
  }
  EXPECT_EQ(emulation_host_allocations(), before);
}

}  // namespace
}  // namespace ringspan::comm
