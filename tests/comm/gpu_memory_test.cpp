// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs over a wire of the host: what waits for what is queued, whether messages are
// staged or the wire takes them as they are. On the emulated driver, whose device memory the host
// reaches.
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
#include "tests/comm/forwarding_wire.hpp"
#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm {
namespace {

using test::has_pattern;
using test::pass_on;
using test::queue_check;
using test::queue_write;
using test::sleep_in_kernel;

constexpr std::int64_t kBytes = 5000;
constexpr int kIllegalAddress = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
constexpr auto kSlow = std::chrono::milliseconds(150);

/// A wire that says whether it takes memory of GPUs.
class SayingWire final : public test::ForwardingWire {
 public:
  SayingWire(std::unique_ptr<Wire> wire, bool reaches)
      : ForwardingWire(std::move(wire)), reaches_(reaches) {}

  bool reaches_gpus() const override { return reaches_; }

 private:
  const bool reaches_;
};

/// [whether the wire takes memory of GPUs].
class GpuMemoryTest : public testing::TestWithParam<bool> {
 protected:
  static void on_ranks(int ranks, double deadline, const RankFunction& body) {
    expect_all_well(fork_ranks(ranks, 30, [&](const Bootstrap& bootstrap) {
      LaunchOptions options{.ranks = ranks, .deadline = deadline, .bootstrap = bootstrap};
      options.gpu_memory = true;
      processes::launch(options, body, bootstrap, [](const Bootstrap& all, double longest) {
        return std::make_unique<SayingWire>(ucx::make_ucx_wire(all, longest), GetParam());
      });
      require(emulation_allocations() == 0, "device memory is left");
    }));
  }
};

INSTANTIATE_TEST_SUITE_P(Wires, GpuMemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "direct" : "staged"; });

TEST_P(GpuMemoryTest, SendsWhatTheKernelsBeforeHaveWritten) {
  on_ranks(3, 20, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    barrier(comm);
    test::Gate gate(comm);
    sleep_in_kernel(comm, kSlow);  // so that what is sent before the kernels end is the old
    queue_write(comm, out, 1);
    Request request = pass_on(comm, out, in);
    gate.open();  // a post that waited for the GPU would not get here
    request.wait();
    const auto right = queue_check(comm, in, comm.prev(), 1);
    comm.device().synchronize(comm.deadline());
    require(*right, "sent before it was written");
  });
}

// What came in is there for kernels that follow the wait, and those before the post still see the
// old.
TEST_P(GpuMemoryTest, ReceivesBehindKernelsThatReadTheMemoryBefore) {
  on_ranks(2, 20, [](const Communicator& comm) {
    const Slice out = whole(comm.device().allocate(kBytes)),
                in = whole(comm.device().allocate(kBytes));
    queue_write(comm, out, 2);
    queue_write(comm, in, 1);
    if (comm.rank() == 0) sleep_in_kernel(comm, kSlow);
    const auto before = queue_check(comm, in, comm.rank(), 1);
    pass_on(comm, out, in).wait();
    const auto after = queue_check(comm, in, comm.prev(), 2);
    comm.device().synchronize(comm.deadline());
    require(*before, "overwritten while a kernel reads it");
    require(*after, "a kernel behind the wait sees something else");
  });
}

TEST_P(GpuMemoryTest, KeepsOrderAndRowsOverManyMessagesInFlight) {
  on_ranks(2, 20, [](const Communicator& world) {
    const Communicator comm = world.split(0, -world.rank());
    constexpr int kRounds = 50;
    std::vector<Slice> outs, ins;
    std::vector<Request> requests;
    for (int round = 0; round < kRounds; ++round) {
      outs.push_back({comm.device().allocate(40 * 100), 0, 40, 60, 100});  // rows with gaps
      ins.push_back({comm.device().allocate(80 * 70), 10, 80, 30, 70});
      queue_write(comm, outs.back(), round);
      requests.push_back(pass_on(comm, outs.back(), ins.back()));
    }
    for (Request& request : requests) request.wait();
    std::vector<std::shared_ptr<bool>> checks;
    for (int round = 0; round < kRounds; ++round)
      checks.push_back(queue_check(comm, ins[round], comm.prev(), round));
    require(all_reduce(comm, 1.5, Reduction::sum) == 3, "a wrong sum");
    comm.device().synchronize(comm.deadline());
    for (const auto& right : checks) require(*right, "a wrong message");
  });
}

TEST_P(GpuMemoryTest, TakesTheStreamAndTheMemoryThatTheCallerBrings) {
  expect_all_well(fork_ranks(2, 30, [](const Bootstrap& bootstrap) {
    test::CallersGpu caller(bootstrap.rank);
    LaunchOptions options{.ranks = 2, .deadline = 20, .bootstrap = bootstrap};
    options.gpu_memory = true;
    options.gpu_resources = [&](int) { return caller.resources(); };
    const RankFunction body = [&](const Communicator& comm) {
      const Slice out = whole(comm.device().allocate(kBytes)),
                  in = whole(comm.device().allocate(kBytes));
      require(caller.holds(out.data()), "memory of somebody else's");
      caller.queue([out = test::borrowed(out), rank = comm.rank()] {
        std::this_thread::sleep_for(kSlow);
        test::write_pattern(out, rank, 0, 1);
      });
      pass_on(comm, out, in).wait();
      bool received = false;
      caller.queue([&, in = test::borrowed(in)] {
        received = static_cast<bool>(has_pattern(in, comm.prev(), 0, 1));
      });
      comm.device().synchronize(comm.deadline());
      require(received, "sent before it was written, or late");
    };
    processes::launch(options, body, bootstrap, [](const Bootstrap& all, double longest) {
      return std::make_unique<SayingWire>(ucx::make_ucx_wire(all, longest), GetParam());
    });
    require(caller.live() == 0 && caller.on_its_stream(), "memory is not returned");
    require(emulation_streams() == 1, "the stream is gone, or not the only one");
  }));
}

TEST(GpuMemoryRefusalTest, EndsWhenAGpuHangs) {
  const auto statuses = fork_ranks(2, 30, [&](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 0.4, .bootstrap = bootstrap};
    options.gpu_memory = true;
    try {
      launch("ucx", options, [](const Communicator& comm) {
        barrier(comm);
        const Slice in = whole(comm.device().allocate(kBytes));
        std::optional<test::Gate> gate;
        if (comm.rank() == 0) gate.emplace(comm);
        pass_on(comm, whole(comm.device().allocate(kBytes)), in).wait();
      });
      require(false, "no failure");
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::timeout && error.where().peer == 0, error.what());
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

// Whether the packing of a message fails, or what waits for it: nothing of the operation is sent,
// even if the rank goes on, and all learn the cause.
TEST_P(GpuMemoryTest, APostThatFailsOnTheGpuIsTheEndOfAll) {
  for (const char* call : {"cuEventRecord", "cuEventQuery"}) {
    const auto statuses = fork_ranks(2, 30, [&](const Bootstrap& bootstrap) {
      LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
      options.gpu_memory = true;
      const RankFunction body = [&](const Communicator& comm) {
        const Slice out = whole(comm.device().allocate(kBytes)),
                    in = whole(comm.device().allocate(kBytes));
        barrier(comm);
        if (comm.rank() == 0) {
          emulation_fail(call, 0, 1, kIllegalAddress);
          try {
            pass_on(comm, out, in).wait();
            require(false, "the post succeeds");
          } catch (const Error&) {
          }
        }
        pass_on(comm, out, in).wait();
        require(false, "a message of a failed post arrives");
      };
      const auto make_wire = [](const Bootstrap& all, double longest) {
        return std::make_unique<SayingWire>(ucx::make_ucx_wire(all, longest), GetParam());
      };
      try {
        processes::launch(options, body, bootstrap, make_wire);
        require(false, "no failure");
      } catch (const Error& error) {
        require(std::string(error.what()).find(call) != std::string::npos, error.what());
      }
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0})) << call;
  }
}

TEST(GpuMemoryRefusalTest, SaysThatNotAllAskForIt) {
  const auto statuses = fork_ranks(2, 30, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
    options.gpu_memory = bootstrap.rank == 1;
    try {
      launch("ucx", options, [](const Communicator&) { require(false, "it runs"); });
    } catch (const Error& error) {
      const std::string text = error.what();
      require(error.kind() == ErrorKind::invalid_argument &&
                  text.find("ledger 0, GPU memory 1; process 0 for 2, 0, 0, 5 s, 0, 0; all must") !=
                      std::string::npos,
              text);
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(GpuMemoryRefusalTest, SaysOnAllRanksWhoHasNoGpu) {
  const auto statuses = fork_ranks(2, 30, [](const Bootstrap& bootstrap) {
    if (bootstrap.rank == 1) emulation_fail("cuInit", 0, 1, cuda::kErrorNoDevice);
    LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
    options.gpu_memory = true;
    try {
      launch("ucx", options, [](const Communicator&) { require(false, "it runs"); });
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::not_available &&
                  error.what() == std::string("rank 1: no GPU memory: no CUDA device"),
              error.what());
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace ringspan::comm
