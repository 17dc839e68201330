// SPDX-License-Identifier: Apache-2.0
// Memory that the caller brings, which processes let each other into by whatever kind of handle it
// has, or which goes through the pool.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/transports/cuda_ipc/imports.hpp"
#include "comm/transports/streams/shared_memory.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

using test::pass_on;
using test::queue_check;
using test::queue_write;

constexpr std::size_t kMapped = std::size_t{2} << 20;  // bytes
constexpr double kSeconds = 100;

/// Mapped by the caller, and unmapped when the last holder lets go.
Buffer mapped_memory(const cuda::Gpu& gpu, int kinds) {
  const cuda::Api& api = gpu.api();
  const cuda::MemoryAccess access{.device = gpu.ordinal()};
  cuda::MemoryHandle memory = 0;
  cuda::Address address = 0;
  gpu.check(emulation_create(&memory, kMapped, kinds), "cuMemCreate");
  gpu.check(api.reserve_addresses(&address, kMapped, 0, 0, 0), "cuMemAddressReserve");
  gpu.check(api.map_memory(address, kMapped, 0, memory, 0), "cuMemMap");
  gpu.check(api.release_memory(memory), "cuMemRelease");
  gpu.check(api.set_access(address, kMapped, &access, 1), "cuMemSetAccess");
  return Buffer(reinterpret_cast<std::byte*>(address), kMapped, [&api, address] {
    api.unmap_memory(address, kMapped);
    api.free_addresses(address, kMapped);
  });
}

Buffer legacy_memory(const cuda::Gpu& gpu) {
  cuda::Address address = 0;
  gpu.check(gpu.api().allocate_exportable(&address, kMapped), "cuMemAlloc");
  return Buffer(reinterpret_cast<std::byte*>(address), kMapped,
                [&api = gpu.api(), address] { api.release_exportable(address); });
}

/// Passes rows in the middle of the caller's buffers on, twice, and once more with new ones.
void exchange(const Communicator& comm, const std::function<Buffer(const cuda::Gpu&)>& allocate) {
  const cuda::Gpu& gpu = test::compute_stream(comm).gpu();
  const cuda::Current current(gpu);
  for (int turn = 0; turn < 3; ++turn) {
    const Buffer out = allocate(gpu), in = allocate(gpu);
    for (int round = 0; round < 2; ++round) {
      const Slice sent{out, 4096, 7, 1000, 3000}, received{in, 999, 7, 1000, 1024};
      queue_write(comm, sent, round);
      pass_on(comm, sent, received).wait();
      const auto right = queue_check(comm, received, comm.prev(), round);
      comm.device().synchronize(comm.deadline());
      require(*right, "wrong bytes");
    }
    for (const Buffer& buffer : {out, in})  // its owner may free it while another has it open
      require(!emulation_handed_out(buffer.data()), "there is a legacy handle");
  }
}

struct Kind {
  const char* name;
  int handles;     // of mapped memory; -1: legacy
  bool is_opened;  // by the other side, instead of copied through the pool
};

void run(const Bootstrap& bootstrap, const Kind& kind) {
  launch("cuda_ipc", {.ranks = 2, .deadline = 10, .bootstrap = bootstrap},
         [&](const Communicator& comm) {
           exchange(comm, [&](const cuda::Gpu& gpu) {
             return kind.handles < 0 ? legacy_memory(gpu) : mapped_memory(gpu, kind.handles);
           });
           long most = 0;  // whoever posts second opens the other's
           for (const long each : all_gather_values(comm, emulation_mappings()))
             most = std::max(most, each);
           require((most > 0) == kind.is_opened, concat(most, " allocations are open"));
         });
  require(emulation_imports() == 0 && emulation_mappings() == 0 && emulation_exportable() == 0,
          "memory is left");
}

TEST(CudaIpcExportsTest, LetsOthersIntoMemoryByTheKindOfHandleThatItHas) {
  const Kind kinds[] = {{"legacy", -1, false},
                        {"descriptor", cuda::kDescriptorHandle, true},
                        {"fabric", cuda::kFabricHandle, true},
                        {"both", cuda::kDescriptorHandle | cuda::kFabricHandle, true},
                        {"none", 0, false}};
  for (const Kind& kind : kinds) {
    const auto statuses =
        fork_ranks(2, kSeconds, [&](const Bootstrap& bootstrap) { run(bootstrap, kind); });
    for (const int status : statuses) EXPECT_EQ(status, 0) << kind.name;
  }
}

// Memory of the device itself, as the caller has it: others are let in where it can be exported.
TEST(CudaIpcExportsTest, LetsOthersIntoWhatTheCallersAllocatorBrings) {
  for (const bool exports : {true, false}) {
    const auto statuses = fork_ranks(2, kSeconds, [&](const Bootstrap& bootstrap) {
      const cuda::Gpu gpu(cuda::load_cuda(), bootstrap.rank);
      std::map<void*, Buffer> live;
      LaunchOptions options{.ranks = 2, .deadline = 10, .bootstrap = bootstrap};
      options.gpu_resources = [&](int) {
        const auto allocate = [&](std::int64_t, void*) -> void* {
          Buffer memory =
              exports ? mapped_memory(gpu, cuda::kDescriptorHandle) : legacy_memory(gpu);
          void* const data = memory.data();
          live.emplace(data, std::move(memory));
          return data;
        };
        return GpuResources{nullptr, allocate,
                            [&](void* memory, auto, auto) { live.erase(memory); }};
      };
      launch("cuda_ipc", options, [&](const Communicator& comm) {
        exchange(comm, [&](const cuda::Gpu&) { return comm.device().allocate(kMapped); });
        long most = 0;
        for (const long each : all_gather_values(comm, emulation_mappings() - std::ssize(live)))
          most = std::max(most, each);
        require((most > 0) == exports, concat(most, " allocations are open"));
      });
      require(live.empty(), "memory is not returned");
      require(emulation_imports() == 0 && emulation_mappings() == 0, "others' memory is left open");
    });
    for (const int status : statuses) EXPECT_EQ(status, 0) << exports;
  }
}

TEST(CudaIpcExportsTest, GoesThroughThePoolWhereTheDriverDoesNotExport) {
  const auto statuses = fork_ranks(2, kSeconds, [](const Bootstrap& bootstrap) {
    emulation_fail("cuMemExportToShareableHandle", 0, 1'000'000, 801);
    run(bootstrap, {"refused", cuda::kDescriptorHandle | cuda::kFabricHandle, false});
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

// Sixty steps with memory of the caller's that is new each time.
TEST(CudaIpcExportsTest, KeepsLittleOfWhatTheOwnerHasFreed) {
  const auto statuses = fork_ranks(2, kSeconds, [](const Bootstrap& bootstrap) {
    launch("cuda_ipc", {.ranks = 2, .deadline = 10, .bootstrap = bootstrap},
           [](const Communicator& comm) {
             const cuda::Gpu& gpu = test::compute_stream(comm).gpu();
             for (int step = 0; step < 60; ++step) {
               const Buffer out = mapped_memory(gpu, cuda::kDescriptorHandle),
                            in = mapped_memory(gpu, cuda::kDescriptorHandle);
               pass_on(comm, whole(out), whole(in)).wait();
               comm.device().synchronize(comm.deadline());
             }
             require(emulation_mappings() <= Imports::kMostOutsidePools + 4, "it grows");
           });
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

/// Ends as the kernel ends a process: what it has open goes first.
[[noreturn]] void end_slowly(std::atomic<bool>& going) {
  close_range(3, ~0U, 0);
  going = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  _exit(7);
}

/// Rank 1 announces its memory and ends; only then do the others come to open it.
void pass_on_to_the_end(const Communicator& comm, bool is_mapped, std::atomic<bool>& going) {
  const cuda::Gpu& gpu = test::compute_stream(comm).gpu();
  const cuda::Current current(gpu);
  const auto allocate = [&] {
    return is_mapped ? mapped_memory(gpu, cuda::kDescriptorHandle)
                     : comm.device().allocate(kMapped);
  };
  const Buffer out = allocate(), in = allocate();
  for (int i = 0; i < 5000 && comm.rank() != 1 && !going; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Request request = pass_on(comm, whole(out), whole(in));
  if (comm.rank() == 1) end_slowly(going);
  request.wait();
  comm.device().synchronize(comm.deadline());
}

TEST(CudaIpcExportsTest, NamesAProcessThatEndsAsOthersOpenItsMemory) {
  for (const bool is_mapped : {false, true}) {
    SCOPED_TRACE(is_mapped ? "descriptor" : "pool");
    const streams::SharedMemory shared(sizeof(std::atomic<bool>));
    auto& going = *new (shared.data()) std::atomic<bool>{false};
    const auto statuses = fork_ranks(3, kSeconds, [&](const Bootstrap& bootstrap) {
      try {
        launch("cuda_ipc", {.ranks = 3, .deadline = 5, .bootstrap = bootstrap},
               [&](const Communicator& comm) { pass_on_to_the_end(comm, is_mapped, going); });
        require(false, "no error");
      } catch (const Error& error) {
        const std::string text = error.what();
        require(error.kind() == ErrorKind::peer_failed && error.where().peer == 1, text);
        require(text.find("operation 0, pass_on: posted by") == 0, text);
        require(text.find("rank 1 is gone: its process") != std::string::npos, text);
      }
    });
    EXPECT_EQ(statuses[0], 0);
    EXPECT_EQ(WEXITSTATUS(statuses[1]), 7);
    EXPECT_EQ(statuses[2], 0);
  }
}

/// What another process says to opening it.
int status_elsewhere(const cuda::IpcHandle& fabric) {
  return fork_ranks(1, kSeconds, [&](const Bootstrap&) {
    const cuda::Gpu gpu(cuda::load_cuda(), 0);
    const cuda::Current current(gpu);
    cuda::IpcHandle handle = fabric;
    cuda::MemoryHandle memory = 0;
    gpu.check(gpu.api().import_handle(&memory, handle.bytes, cuda::kFabricHandle), "import");
  })[0];
}

// What the tests above rely on.
TEST(CudaIpcExportsTest, TheEmulationOpensNeitherOwnNorFreedMemoryAndKnowsItsGpus) {
  const cuda::Gpu gpu(cuda::load_cuda(), 0);
  const cuda::Current current(gpu);
  const cuda::Api& api = gpu.api();
  cuda::IpcHandle fabric;
  int descriptor = -1;
  {
    const Buffer buffer = mapped_memory(gpu, cuda::kDescriptorHandle | cuda::kFabricHandle);
    cuda::MemoryHandle memory = 0, opened = 0;
    gpu.check(api.retain_memory(&memory, buffer.data()), "retain");
    gpu.check(api.export_handle(fabric.bytes, memory, cuda::kFabricHandle, 0), "export");
    gpu.check(api.export_handle(&descriptor, memory, cuda::kDescriptorHandle, 0), "export");
    gpu.check(api.release_memory(memory), "release");
    EXPECT_NE(api.import_handle(&opened, fabric.bytes, cuda::kFabricHandle), cuda::kSuccess);
    EXPECT_NE(
        api.import_handle(&opened, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                          cuda::kDescriptorHandle),
        cuda::kSuccess);
    close(descriptor);
    EXPECT_EQ(status_elsewhere(fabric), 0);
    const auto address = reinterpret_cast<cuda::Address>(buffer.data());
    const cuda::MemoryAccess nobody{.device = 1000}, own{.device = 0};
    EXPECT_NE(api.set_access(address, kMapped, &nobody, 1), cuda::kSuccess);
    EXPECT_NE(api.set_access(address, kMapped, &own, 0), cuda::kSuccess);
    EXPECT_EQ(api.set_access(address, kMapped, &own, 1), cuda::kSuccess);
  }
  EXPECT_NE(status_elsewhere(fabric), 0);
}

}  // namespace
}  // namespace ringspan::comm::cuda_ipc
