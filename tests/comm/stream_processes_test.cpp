// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes, on the transports that queue messages on a GPU's streams: that they
// meet, and how they end when one of them dies, stops or is wrong.
#include "tests/comm/stream_processes.hpp"

#include <csignal>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::comm {
namespace {

using test::Clock;
using test::failure_of;
using test::kBytes;
using test::kLongest;
using test::pass_on;
using test::pass_on_once;
using test::queue_check;
using test::queue_write;
using test::what;

/// What forks must have no other threads, so this process launches nothing itself.
class StreamProcessesTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamProcessesTest, PassesBlocksOnBetweenProcesses) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 10, .bootstrap = bootstrap};
    options.debug.ledger = true;
    launch(GetParam(), options, [](const Communicator& comm) {
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

TEST_P(StreamProcessesTest, NamesAProcessThatIsKilled) {
  const auto statuses = fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    const auto start = Clock::now();
    const auto error = failure_of(GetParam(), {.ranks = 3, .deadline = 15, .bootstrap = bootstrap},
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
            what(error));
    require(std::string(error->what()).find("is gone: its process") != std::string::npos,
            error->what());
    require(Clock::now() - start < std::chrono::seconds(10), "noticed late");
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_EQ(statuses[2], 0);
}

TEST_P(StreamProcessesTest, NamesAProcessThatIsKilledToAHostThatWaitsByOtherMeans) {
  const auto statuses = fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of(
        GetParam(), {.ranks = 2, .deadline = 15, .bootstrap = bootstrap},
        [](const Communicator& comm) {
          const Slice out = whole(comm.device().allocate(kBytes)),
                      in = whole(comm.device().allocate(kBytes));
          pass_on(comm, out, in).wait();
          comm.device().synchronize(comm.deadline());
          if (comm.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other has posted
            kill(getpid(), SIGKILL);
          }
          pass_on(comm, out, in).wait();
          const auto end = Clock::now() + std::chrono::seconds(10);
          while (!test::compute_stream(comm).idle())  // as cuStreamSynchronize
            require(Clock::now() < end, "the stream does not end");
        });
    require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 1,
            what(error));
    require(std::string(error->what()).find("rank 1 is gone: its process") == 0, error->what());
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
}

TEST_P(StreamProcessesTest, EndsWaitsForAProcessThatStops) {
  const auto statuses = fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of(GetParam(), {.ranks = 2, .deadline = 0.3, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    if (comm.rank() == 1) kill(getpid(), SIGSTOP);
                                    const Slice in = whole(comm.device().allocate(kBytes));
                                    pass_on(comm, whole(comm.device().allocate(kBytes)), in).wait();
                                    comm.device().synchronize(comm.deadline());
                                  });
    require(error && error->kind() == ErrorKind::timeout && error->where().peer == 1, what(error));
  });
  EXPECT_EQ(statuses[0], 0);
}

TEST_P(StreamProcessesTest, ThrowsTheSameEverywhereWhenARankThrows) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of(GetParam(), {.ranks = 2, .deadline = 10, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    if (comm.rank() == 1) throw std::runtime_error("boom");
                                    barrier(comm);
                                    comm.device().synchronize(comm.deadline());
                                  });
    require(error && error->what() == std::string("rank 1: boom"), error ? error->what() : "none");
  }));
}

TEST_P(StreamProcessesTest, CountsTheOperationsOfEveryGroup) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 10, .bootstrap = bootstrap};
    options.debug.ledger = true;
    const auto error = failure_of(GetParam(), options, [](const Communicator& world) {
      std::vector<Communicator> groups;
      for (int i = 0; i < 40; ++i) groups.push_back(world.split(0, world.rank()));
      for (const Communicator& group : groups) barrier(group);
      if (world.rank() == 0) groups[0].post("one_more", {}, {}).wait();
    });
    require(error.has_value(), "nobody has noticed");
  }));
}

TEST_P(StreamProcessesTest, RefusesBeforeAnythingMoves) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    const auto never = [](const Communicator&) { require(false, "it runs"); };
    const auto refusal = [&](const LaunchOptions& options) {
      const auto error = failure_of(GetParam(), options, never);
      require(error && error->kind() == ErrorKind::invalid_argument, "not refused");
    };
    refusal({.ranks = 3, .bootstrap = bootstrap});
    refusal({.ranks = 2, .deadline = 5.0 + bootstrap.rank, .bootstrap = bootstrap});
    refusal({.ranks = 2, .hop = Hop::reference, .bootstrap = bootstrap});
  }));
}

TEST_P(StreamProcessesTest, AllSayWhatOneProcessLacksAndMeetAgain) {
  expect_all_well(fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    const LaunchOptions options{.ranks = 3, .deadline = 5, .bootstrap = bootstrap};
    if (bootstrap.rank == 1) setenv("CUDA_VISIBLE_DEVICES", "", 1);
    const auto error = failure_of(GetParam(), options, pass_on_once);
    require(error && error->kind() == ErrorKind::not_available, "not refused");
    require(std::string(error->what())
                    .find(std::string("transport '") + GetParam() + "': process 1: ") == 0,
            error->what());
    unsetenv("CUDA_VISIBLE_DEVICES");
    const auto other = failure_of(GetParam(), options, pass_on_once);
    require(!other, what(other));
  }));
}

TEST_P(StreamProcessesTest, EachMaySeeItsOwnGpuAlone) {
  expect_all_well(fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    setenv("CUDA_VISIBLE_DEVICES", bootstrap.rank == 0 ? "3" : "5", 1);
    const auto error =
        failure_of(GetParam(), {.ranks = 2, .deadline = 5, .bootstrap = bootstrap}, pass_on_once);
    require(!error, what(error));
  }));
}

class NcclProcessesTest : public StreamProcessesTest {};

TEST_P(NcclProcessesTest, NameAProcessThatDiesWhileAllConnect) {
  const auto statuses = fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    emulation_fail("asyncError", 0, 1'000'000'000, 7);  // in progress for ever
    if (bootstrap.rank == 1) emulation_fail("killed", 20, 1, 1);
    const auto start = Clock::now();
    const auto error =
        failure_of(GetParam(), {.ranks = 3, .deadline = 15, .bootstrap = bootstrap}, pass_on_once);
    require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 1,
            what(error));
    require(std::string(error->what()).find("all ranks to be connected") != std::string::npos,
            error->what());
    require(Clock::now() - start < std::chrono::seconds(10), "noticed late");
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_EQ(statuses[2], 0);
}

TEST_P(NcclProcessesTest, NameARankThatCannotConnect) {
  const auto statuses = fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    if (bootstrap.rank == 1) emulation_fail("ncclCommInitRankConfig", 0, 1, 1);
    const auto error =
        failure_of(GetParam(), {.ranks = 2, .deadline = 5, .bootstrap = bootstrap}, pass_on_once);
    require(error && error->kind() == ErrorKind::system && error->where().rank == 1, what(error));
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0}));
}

TEST_P(NcclProcessesTest, RefuseToShareAGpu) {
  expect_all_well(fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    setenv("RINGSPAN_EMULATED_GPUS", "2", 1);
    const auto error =
        failure_of(GetParam(), {.ranks = 3, .deadline = 5, .bootstrap = bootstrap}, pass_on_once);
    require(error && error->kind() == ErrorKind::invalid_argument, "not refused");
    require(error->what() == std::string("nccl: ranks 0 and 2 have the same GPU; every rank needs "
                                         "one of its own"),
            error->what());
  }));
}

TEST_P(NcclProcessesTest, RefuseToShareTheOnlyGpuThatEachSees) {
  expect_all_well(fork_ranks(3, kLongest, [](const Bootstrap& bootstrap) {
    setenv("CUDA_VISIBLE_DEVICES", bootstrap.rank == 0 ? "4" : "5", 1);
    const auto error =
        failure_of(GetParam(), {.ranks = 3, .deadline = 5, .bootstrap = bootstrap}, pass_on_once);
    require(error && error->kind() == ErrorKind::invalid_argument, "not refused");
    require(error->what() == std::string("nccl: ranks 1 and 2 have the same GPU; every rank needs "
                                         "one of its own"),
            error->what());
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamProcessesTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });
INSTANTIATE_TEST_SUITE_P(Transports, NcclProcessesTest, testing::Values("nccl"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace ringspan::comm
