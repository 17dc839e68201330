// SPDX-License-Identifier: Apache-2.0
// Copies between the GPUs of real processes, which the emulated driver lets into each other's
// memory, and what is open of others.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/transports/cuda_ipc/imports.hpp"
#include "comm/transports/streams/shared_memory.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

using test::has_pattern;
using test::pass_on;
using test::queue_check;
using test::queue_write;

constexpr std::int64_t kBytes = 1000;
constexpr double kLongest = 20;  // seconds

TEST(CudaIpcTest, PutsAllToAllInPlaceAmongProcessesAndGroups) {
  expect_all_well(fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    launch("cuda_ipc", {.ranks = 3, .deadline = 10, .bootstrap = bootstrap},
           [](const Communicator& world) {
             const Communicator comm = world.split(0, -world.rank());  // in another order
             // Rows of 24 bytes, 40 apart, to rows of 8, 16 apart: of every rank to every other.
             constexpr std::int64_t kRows = 6;
             const Buffer out = comm.device().allocate(3 * 2 * 40),
                          in = comm.device().allocate(3 * kRows * 16);
             Slice rows[3], places[3];
             for (int peer = 0; peer < 3; ++peer) {
               rows[peer] = {out, peer * 80, 2, 24, 40};
               places[peer] = {in, peer * kRows * 16, kRows, 8, 16};
               queue_write(comm, rows[peer], peer);
             }
             std::vector<Send> sends;
             std::vector<Recv> recvs;
             for (int peer = 0; peer < 3; ++peer) {
               sends.push_back({peer, rows[peer]});
               recvs.push_back({peer, places[peer]});
             }
             comm.post("direct", sends, recvs).wait();
             std::vector<std::shared_ptr<bool>> checks;
             for (int peer = 0; peer < 3; ++peer)
               checks.push_back(queue_check(comm, places[peer], peer, comm.rank()));
             comm.device().synchronize(comm.deadline());
             for (const auto& right : checks) require(*right, "a wrong row");
           });
  }));
}

TEST(CudaIpcTest, RefusesGpusThatDoNotReachEachOther) {
  for (const bool own_alone : {false, true}) {
    expect_all_well(fork_ranks(3, kLongest, [&](const Bootstrap& bootstrap) {
      if (own_alone) setenv("CUDA_VISIBLE_DEVICES", std::to_string(bootstrap.rank).c_str(), 1);
      if (bootstrap.rank == 1) emulation_fail("peerAccess", 0, 1'000'000, 1);
      try {
        launch("cuda_ipc", {.ranks = 2, .deadline = 5, .bootstrap = bootstrap},
               [](const Communicator& comm) { barrier(comm); });
        require(own_alone, "not refused");  // a process that sees no other GPU cannot tell
      } catch (const Error& error) {
        require(!own_alone && error.kind() == ErrorKind::not_available, error.what());
        require(error.what() ==
                    std::string("cuda_ipc: GPU 1 does not reach GPU 0's memory; use nccl or ucx"),
                error.what());
      }
    }));
  }
}

/// What one process tells another of its memory, in memory that they share.
struct Notes {
  std::atomic<int> step{0};
  Place place;

  void await(int wanted) const {
    for (int i = 0; i < 5000 && step < wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    require(step >= wanted, "the other process is not there");
  }
};

Place export_new(const cuda::Gpu& gpu, const char* text, cuda::Address& address) {
  const cuda::Current current(gpu);
  Place place;
  gpu.check(gpu.api().allocate_exportable(&address, kBytes), "cuMemAlloc");
  gpu.check(gpu.api().export_memory(&place.handle, address), "cuIpcGetMemHandle");
  gpu.check(gpu.api().pointer_attribute(&place.buffer_id, cuda::kBufferId, address), "id");
  std::strcpy(reinterpret_cast<char*>(address), text);
  place.base = 4096;  // the same, whatever the driver says: the worst case
  return place;
}

// The driver may give out the address of what has been freed again.
TEST(CudaIpcTest, OpensMemoryAnewThatIsAnotherAtTheSameAddress) {
  const streams::SharedMemory shared(sizeof(Notes));
  Notes& notes = *new (shared.data()) Notes;
  expect_all_well(fork_ranks(2, kLongest, [&](const Bootstrap& bootstrap) {
    const auto gpu = std::make_shared<cuda::Gpu>(cuda::load_cuda(), bootstrap.rank);
    if (bootstrap.rank == 0) {
      cuda::Address first = 0, second = 0;
      notes.place = export_new(*gpu, "first", first);
      notes.step = 1;
      notes.await(2);
      gpu->check(gpu->api().release_exportable(first), "cuMemFree");
      notes.place = export_new(*gpu, "second", second);
      notes.step = 3;
      notes.await(4);
      return;
    }
    Imports imports(gpu);
    const auto text = [&] {
      return std::string(reinterpret_cast<const char*>(imports.open(notes.place).get()));
    };
    notes.await(1);
    require(text() == "first" && text() == "first", "not what was exported");
    require(emulation_imports() == 1, "opened twice");
    const Place stale = notes.place;
    notes.step = 2;
    notes.await(3);
    require(text() == "second", "memory that was freed");
    require(emulation_imports() == 1, "the other is still open");
    try {
      imports.open(stale);
      require(false, "opened memory that was freed");
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::system, error.what());
    }
    imports.close_unused();
    require(emulation_imports() == 0, "still open");
    notes.step = 4;
  }));
}

// A thousand steps with new buffers each.
TEST(CudaIpcTest, OpensNoMoreWhenBuffersComeAndGo) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    launch("cuda_ipc", {.ranks = 2, .deadline = 10, .bootstrap = bootstrap},
           [](const Communicator& comm) {
             for (int step = 0; step < 1000; ++step) {
               const std::int64_t bytes = kBytes + step % 3 * 1000;
               const Slice in = whole(comm.device().allocate(bytes));
               pass_on(comm, whole(comm.device().allocate(bytes)), in).wait();
             }
             comm.device().synchronize(comm.deadline());
             require(emulation_exportable() < 20 && emulation_imports() < 20, "it grows");
           });
  }));
}

}  // namespace
}  // namespace ringspan::comm::cuda_ipc
