// SPDX-License-Identifier: Apache-2.0
// A stream and memory that the caller brings for a rank whose messages move over a wire of the
// host.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/transports/processes/launch.hpp"
#include "comm/transports/ucx/ucx_wire.hpp"
#include "tests/comm/callers_gpu.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm {
namespace gpu_memory_callers_test {

using test::queue_check;
using test::queue_write;
using test::sleep_in_kernel;

constexpr std::int64_t kBytes = 5000;
constexpr auto kSlow = std::chrono::milliseconds(150);

TEST(GpuMemoryCallersTest, TheRanksEndWaitsForWhatTheCallerHasQueued) {
  for (const bool fails : {false, true}) {
    expect_all_well(fork_ranks(2, 30, [fails](const Bootstrap& bootstrap) {
      test::CallersGpu caller(bootstrap.rank);
      std::atomic<bool> ran = false;
      LaunchOptions options{.ranks = 2, .deadline = 20, .bootstrap = bootstrap};
      options.gpu_memory = true;
      options.gpu_resources = [&](int) { return caller.resources(); };
      bool failed = false;
      try {
        launch("ucx", options, [&](const Communicator&) {
          caller.queue([&ran] {
            std::this_thread::sleep_for(8 * kSlow);  // also after what a failure takes to spread
            ran = true;
          });
          if (fails) throw std::runtime_error("boom");
        });
      } catch (const Error&) {
        failed = true;
      }
      require(ran, "what was queued has not run");
      require(failed == fails, "a failure, or none");
    }));
  }
}

TEST(GpuMemoryCallersTest, ReleaseMayLetGoOfOtherMemory) {
  expect_all_well(fork_ranks(1, 10, [](const Bootstrap& bootstrap) {
    test::CallersGpu caller(0);
    Buffer other;
    LaunchOptions options{.ranks = 1, .deadline = 5, .bootstrap = bootstrap};
    options.gpu_memory = true;
    options.gpu_resources = [&](int) {
      GpuResources resources = caller.resources();
      resources.release = [&other, put = resources.release](auto... memory) {
        const Buffer last = std::exchange(other, {});
        put(memory...);
      };
      return resources;
    };
    launch("ucx", options, [&](const Communicator& comm) {
      const Buffer first = comm.device().allocate(kBytes);
      other = comm.device().allocate(kBytes);
    });
    require(!other.data() && caller.live() == 0, "memory is not returned");
  }));
}

TEST(GpuMemoryCallersTest, SaysOnAllRanksWhatTheCallerCannotBring) {
  const auto statuses = fork_ranks(2, 30, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
    options.gpu_memory = true;
    options.gpu_resources = [](int rank) -> GpuResources {
      if (rank == 1) throw std::runtime_error("out of streams");
      return {};
    };
    try {
      launch("ucx", options, [](const Communicator&) { require(false, "it runs"); });
    } catch (const Error& error) {
      require(error.what() == std::string("rank 1: gpu_resources: out of streams"), error.what());
    }
    options.gpu_memory = false;
    try {
      launch("ucx", options, [](const Communicator&) { require(false, "it runs"); });
    } catch (const Error& error) {
      const std::string text = error.what();
      require(text.ends_with("are on the host unless gpu_memory is set"), text);
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(GpuMemoryCallersTest, AllHearWhateverTheCallersFunctionsThrow) {
  struct Throws {
    std::function<GpuResources(int rank)> bring;
    std::string text;
  };
  const auto allocator = [](auto thrown) {
    return [thrown](int rank) {
      if (rank != 1) return GpuResources{};
      return GpuResources{.allocate = [thrown](auto, auto) -> void* { throw thrown; },
                          .release = [](auto, auto, auto) {}};
    };
  };
  const auto throws_number = [](int rank) -> GpuResources {
    if (rank == 1) throw 7;
    return {};
  };
  for (const Throws& each : {Throws{allocator(std::bad_alloc()), "rank 1: out of memory"},
                             Throws{allocator(std::runtime_error("boom")), "rank 1: boom"},
                             Throws{allocator(7), "rank 1: unknown exception"},
                             Throws{throws_number, "rank 1: gpu_resources: unknown exception"}}) {
    const auto statuses = fork_ranks(2, 30, [&](const Bootstrap& bootstrap) {
      LaunchOptions options{.ranks = 2, .deadline = 2, .bootstrap = bootstrap};
      options.gpu_memory = true;
      options.gpu_resources = each.bring;
      try {
        launch("ucx", options, [](const Communicator&) { require(false, "it runs"); });
        require(false, "no failure");
      } catch (const Error& error) {
        require(error.what() == each.text, error.what());
      }
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0})) << each.text;
  }
}

}  // namespace gpu_memory_callers_test
}  // namespace ringspan::comm
