// SPDX-License-Identifier: Apache-2.0
// Copies between the GPUs of real processes, which the emulated driver lets into each other's
// memory, and what is open of others.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "comm/transports/cuda_ipc/imports.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

using test::has_pattern;
using test::pass_on;
using test::queue_check;
using test::queue_write;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBytes = 1000;
constexpr double kLongest = 20;  // seconds

std::optional<Error> failure_of(const LaunchOptions& options, const RankFunction& body) {
  try {
    launch("cuda_ipc", options, body);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

void expect_all_well(const std::vector<int>& statuses) {
  for (std::size_t rank = 0; rank < statuses.size(); ++rank)
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
}

// First in this file: what forks must have no other threads.
TEST(CudaIpcTest, PassesBlocksOnBetweenProcesses) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 10, .bootstrap = bootstrap};
    options.debug.ledger = true;
    launch("cuda_ipc", options, [](const Communicator& comm) {
      RingExchange ring(comm, kBytes);
      queue_write(comm, whole(ring.begin()), 0);
      std::vector<std::shared_ptr<bool>> checks;
      for (int hop = 0; hop <= 300 * comm.size(); ++hop) {  // values and slots wrap
        checks.push_back(
            queue_check(comm, slice(ring.block(), 0, kBytes), (comm.rank() + hop) % 2, 0));
        ring.start(kBytes, kBytes);
        ring.finish();
      }
      comm.device().synchronize(comm.deadline());
      for (const auto& right : checks) require(*right, "a wrong block");
      require(all_gather_values(comm, 10 + comm.rank()) == std::vector<int>{10, 11},
              "wrong values");
    });
    require(emulation_imports() == 0 && emulation_exportable() == 0, "memory is left");
  }));
}

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

TEST(CudaIpcTest, NamesAProcessThatIsKilled) {
  const auto statuses = fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    const auto start = Clock::now();
    const auto error = failure_of({.ranks = 3, .deadline = 5, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    const Slice out = whole(comm.device().allocate(kBytes)),
                                                in = whole(comm.device().allocate(kBytes));
                                    pass_on(comm, out, in).wait();
                                    comm.device().synchronize(comm.deadline());
                                    if (comm.rank() == 1) kill(getpid(), SIGKILL);
                                    pass_on(comm, out, in).wait();
                                    comm.device().synchronize(comm.deadline());
                                  });
    require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 1,
            error ? error->what() : "no error");
    require(std::string(error->what()).find("is gone: its process") != std::string::npos,
            error->what());
    require(Clock::now() - start < std::chrono::seconds(4), "noticed late");
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_EQ(statuses[2], 0);
}

TEST(CudaIpcTest, EndsWaitsForAProcessThatStops) {
  const auto statuses = fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of({.ranks = 2, .deadline = 0.3, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    if (comm.rank() == 1) kill(getpid(), SIGSTOP);
                                    const Slice in = whole(comm.device().allocate(kBytes));
                                    pass_on(comm, whole(comm.device().allocate(kBytes)), in).wait();
                                    comm.device().synchronize(comm.deadline());
                                  });
    require(error && error->kind() == ErrorKind::timeout && error->where().peer == 1,
            error ? error->what() : "no error");
  });
  EXPECT_EQ(statuses[0], 0);
}

TEST(CudaIpcTest, ThrowsTheSameEverywhereWhenARankThrows) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of({.ranks = 2, .deadline = 10, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    if (comm.rank() == 1) throw std::runtime_error("boom");
                                    barrier(comm);
                                    comm.device().synchronize(comm.deadline());
                                  });
    require(error && error->what() == std::string("rank 1: boom"), error ? error->what() : "none");
  }));
}

TEST(CudaIpcTest, CountsTheOperationsOfEveryGroup) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 10, .bootstrap = bootstrap};
    options.debug.ledger = true;
    const auto error = failure_of(options, [](const Communicator& world) {
      std::vector<Communicator> groups;
      for (int i = 0; i < 40; ++i) groups.push_back(world.split(0, world.rank()));
      for (const Communicator& group : groups) barrier(group);
      if (world.rank() == 0) groups[0].post("one_more", {}, {}).wait();
    });
    require(error.has_value(), "nobody has noticed");
  }));
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
  const SharedMemory shared(sizeof(Notes));
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

TEST(CudaIpcTest, RefusesBeforeAnythingMoves) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto never = [](const Communicator&) { require(false, "it runs"); };
    const auto refusal = [&](const LaunchOptions& options) {
      const auto error = failure_of(options, never);
      require(error && error->kind() == ErrorKind::invalid_argument, "not refused");
    };
    refusal({.ranks = 3, .bootstrap = bootstrap});
    refusal({.ranks = 2, .deadline = 5.0 + bootstrap.rank, .bootstrap = bootstrap});
    refusal({.ranks = 2, .hop = Hop::reference, .bootstrap = bootstrap});
  }));
}

}  // namespace
}  // namespace ringspan::comm::cuda_ipc
