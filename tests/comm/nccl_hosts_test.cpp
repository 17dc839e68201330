// SPDX-License-Identifier: Apache-2.0
// NCCL between hosts that processes of this one play.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <new>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "comm/transports/streams/shared_memory.hpp"
#include "tests/comm/forked_hosts.hpp"
#include "tests/comm/stream_processes.hpp"

namespace ringspan::comm {
namespace nccl_hosts_test {

using test::Clock;
using test::expect_others_well;
using test::failure_of;
using test::kBytes;
using test::kLongest;
using test::pass_on;
using test::pass_on_once;
using test::queue_check;
using test::queue_write;
using test::what;

/// Around the ring, beyond the messages that may be ahead.
void turn(const Communicator& comm, int hops) {
  RingExchange ring(comm, kBytes);
  queue_write(comm, whole(ring.begin()), 0);
  std::vector<std::shared_ptr<bool>> checks;
  for (int hop = 0; hop <= hops; ++hop) {
    const int owner = ((comm.rank() - hop) % comm.size() + comm.size()) % comm.size();
    checks.push_back(queue_check(comm, slice(ring.block(), 0, kBytes), owner, 0));
    ring.start(kBytes, kBytes);
    ring.finish();
  }
  comm.device().synchronize(comm.deadline());
  for (const auto& right : checks) require(*right, "a wrong block");
}

std::size_t descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class NcclHostsTest : public testing::TestWithParam<std::vector<int>> {};

TEST_P(NcclHostsTest, PassBlocksOnInTheWorldAndInGroups) {
  expect_all_well(fork_hosts(GetParam(), kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = size(GetParam()), .deadline = 10, .bootstrap = bootstrap};
    options.debug.ledger = true;
    launch("nccl", options, [](const Communicator& world) {
      turn(world, 300);
      const auto halves = world.split(world.rank() % 2, world.rank());
      turn(halves, 3);
      turn(halves.split(halves.rank() % 2, halves.rank()), 3);
      std::vector<int> ranks;
      for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
      require(all_gather_values(world, world.rank()) == ranks, "wrong values");
    });
  }));
}

INSTANTIATE_TEST_SUITE_P(Hosts, NcclHostsTest,
                         testing::Values(std::vector{1, 1}, std::vector{2, 1}, std::vector{2, 2},
                                         std::vector{3, 1, 1}, std::vector{1, 4, 2}),
                         [](const auto& hosts) {
                           std::string name;
                           for (const int processes : hosts.param)
                             name += concat(name.empty() ? "" : "_", processes);
                           return name;
                         });

TEST(NcclHostsFailureTest, LaunchesFollowOneAnotherAndLeaveNoDescriptor) {
  expect_all_well(fork_hosts({2, 2}, kLongest, [](const Bootstrap& bootstrap) {
    std::size_t before = 0;
    for (int round = 0; round < 4; ++round) {
      const LaunchOptions options{.ranks = 3, .deadline = 5, .bootstrap = bootstrap};
      const auto error = failure_of("nccl", options, [&](const Communicator& comm) {
        pass_on_once(comm);
        if (round % 2 == 1 && comm.rank() == 2) throw std::runtime_error("boom");
        pass_on_once(comm);
      });
      require(round % 2 == 0 ? !error : what(error) == "rank 2: boom", what(error));
      if (round == 1) before = descriptors();
    }
    require(descriptors() == before, "descriptors are left");
  }));
}

TEST(NcclHostsFailureTest, NameAProcessThatIsKilledOnAnotherHost) {
  for (const int victim : {2, 3}) {  // the one that tells other hosts of its own, and not
    const auto statuses = fork_hosts({2, 2}, kLongest, [&](const Bootstrap& bootstrap) {
      const auto start = Clock::now();
      const auto error = failure_of("nccl", {.ranks = 4, .deadline = 5, .bootstrap = bootstrap},
                                    [&](const Communicator& comm) {
                                      pass_on_once(comm);
                                      if (comm.rank() == victim) kill(getpid(), SIGKILL);
                                      pass_on_once(comm);
                                    });
      require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == victim,
              what(error));
      require(what(error).find(concat("rank ", victim, " is gone: ")) != std::string::npos,
              what(error));
      require(Clock::now() - start < std::chrono::seconds(4), "noticed late");
    });
    EXPECT_TRUE(WIFSIGNALED(statuses[victim]));
    expect_others_well(statuses, victim);
  }
}

TEST(NcclHostsFailureTest, NameAProcessWhoseEndNcclHasNoticedFirst) {
  const auto statuses = fork_hosts({1, 2}, kLongest, [&](const Bootstrap& bootstrap) {
    const auto error = failure_of("nccl", {.ranks = 3, .deadline = 5, .bootstrap = bootstrap},
                                  [&](const Communicator& comm) {
                                    pass_on_once(comm);
                                    if (comm.rank() == 2) kill(getpid(), SIGKILL);
                                    emulation_fail("asyncError", 0, 1'000'000'000, 6);
                                    pass_on_once(comm);
                                  });
    emulation_fail("asyncError", 0, 0, 0);
    require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 2,
            what(error));
  });
  expect_others_well(statuses, 2);
}

TEST(NcclHostsFailureTest, NameAProcessThatStopsOnAnotherHost) {
  for (const int victim : {2, 3}) {
    const auto statuses = fork_hosts({2, 2}, kLongest, [&](const Bootstrap& bootstrap) {
      const auto error = failure_of("nccl", {.ranks = 4, .deadline = 0.4, .bootstrap = bootstrap},
                                    [&](const Communicator& comm) {
                                      pass_on_once(comm);
                                      if (comm.rank() == victim) kill(getpid(), SIGSTOP);
                                      pass_on_once(comm);
                                    });
      require(error && error->kind() == ErrorKind::timeout && error->where().peer == victim,
              what(error));
    });
    expect_others_well(statuses, victim);
  }
}

TEST(NcclHostsFailureTest, NameAWrongSizeBetweenHosts) {
  expect_all_well(fork_hosts({1, 2}, kLongest, [](const Bootstrap& bootstrap) {
    const auto error = failure_of(
        "nccl", {.ranks = 3, .deadline = 5, .bootstrap = bootstrap}, [](const Communicator& comm) {
          pass_on_once(comm);
          const std::int64_t bytes = comm.rank() == 2 ? kBytes + 1 : kBytes;
          pass_on(comm, whole(comm.device().allocate(bytes)), whole(comm.device().allocate(kBytes)))
              .wait();
          comm.device().synchronize(comm.deadline());
        });
    require(error && error->where().peer == 2, what(error));
    require(what(error) ==
                "rank 2 sends 1001 bytes in operation 1, pass_on, where rank 0 expects "
                "1000 bytes in operation 1, pass_on",
            what(error));
  }));
}

TEST(NcclHostsFailureTest, NameARankThatReturnsEarlyAndCountOperations) {
  expect_all_well(fork_hosts({1, 1}, kLongest, [](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
    options.debug.ledger = true;
    const auto early = failure_of("nccl", options, [](const Communicator& comm) {
      if (comm.rank() == 0) pass_on_once(comm);
    });
    require(early && early->where().peer == 1, what(early));
    require(
        what(early).find("not by 1, whose last was none; rank 1 has returned") != std::string::npos,
        what(early));
    const auto unequal = failure_of("nccl", options, [](const Communicator& comm) {
      pass_on_once(comm);
      if (comm.rank() == 1) comm.post("one_more", {}, {}).wait();
    });
    require(what(unequal).find("ledger: rank 0 posted 1 operations") == 0, what(unequal));
  }));
}

TEST(NcclHostsFailureTest, HostsMayAlternate) {
  const auto statuses = fork_ranks(4, kLongest, [](const Bootstrap& bootstrap) {
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(bootstrap.rank).c_str(), 1);
    LaunchOptions options{.ranks = 4, .deadline = 2};
    options.bootstrap = test::on_hosts_of(bootstrap, {0, 1, 0, 1});
    launch("nccl", options, [](const Communicator& comm) { turn(comm, 5); });
    const auto start = Clock::now();
    const auto error = failure_of("nccl", options, [](const Communicator& comm) {
      pass_on_once(comm);
      if (comm.rank() == 1) kill(getpid(), SIGKILL);  // which rank 3 hears other hosts by
      pass_on_once(comm);
    });
    require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 1,
            what(error));
    require(Clock::now() - start < std::chrono::seconds(4), "noticed late");
  });
  expect_others_well(statuses, 1);
}

TEST(NcclHostsFailureTest, NoOtherHostIsBlamedForTheEndOfWhoTellsOfIt) {
  for (const int ranks : {3, 4}) {  // process 3 has returned, or has no rank
    const auto statuses = fork_hosts({2, 2}, kLongest, [&](const Bootstrap& bootstrap) {
      const auto start = Clock::now();
      const auto error = failure_of("nccl", {.ranks = ranks, .deadline = 2, .bootstrap = bootstrap},
                                    [](const Communicator& comm) {
                                      pass_on_once(comm);
                                      if (comm.rank() == 3) return;
                                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                      if (comm.rank() == 2) kill(getpid(), SIGKILL);
                                      std::this_thread::sleep_for(std::chrono::milliseconds(500));
                                    });
      require(error && error->kind() == ErrorKind::peer_failed && error->where().peer == 2,
              what(error));
      require(Clock::now() - start < std::chrono::seconds(6), "noticed late");
    });
    EXPECT_TRUE(WIFSIGNALED(statuses[2]));
    expect_others_well(statuses, 2);
  }
}

TEST(NcclHostsFailureTest, AHostWithoutRanksMayLoseWhoTellsItOfOthers) {
  const streams::SharedMemory memory(sizeof(std::atomic<pid_t>));
  auto& victim = *new (memory.data()) std::atomic<pid_t>(0);
  const auto statuses = fork_hosts({2, 2}, kLongest, [&](const Bootstrap& bootstrap) {
    if (bootstrap.rank == 2) victim = getpid();
    const auto error = failure_of("nccl", {.ranks = 2, .deadline = 1, .bootstrap = bootstrap},
                                  [&](const Communicator& comm) {
                                    pass_on_once(comm);
                                    if (comm.rank() == 0) kill(victim, SIGKILL);
                                    std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                    pass_on_once(comm);
                                  });
    if (bootstrap.rank < 2) return require(!error, what(error));
    require(what(error).find("process 2 is gone: its process ") == 0, what(error));
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
  expect_others_well(statuses, 2);
}

TEST(NcclHostsFailureTest, AHostWithoutRanksDoesNotWaitForOneThatStops) {
  const auto statuses = fork_hosts({2, 1}, kLongest, [&](const Bootstrap& bootstrap) {
    const auto error = failure_of("nccl", {.ranks = 2, .deadline = 0.4, .bootstrap = bootstrap},
                                  [](const Communicator& comm) {
                                    pass_on_once(comm);
                                    if (comm.rank() == 0) kill(getpid(), SIGSTOP);
                                    pass_on_once(comm);
                                  });
    require(error && error->kind() == ErrorKind::timeout && error->where().peer == 0, what(error));
  });
  expect_others_well(statuses, 0);
}

TEST(NcclHostsFailureTest, OnlyCudaIpcRefusesSeveralMachines) {
  expect_all_well(fork_hosts({1, 1}, kLongest, [](const Bootstrap& bootstrap) {
    const LaunchOptions options{.ranks = 2, .deadline = 5, .bootstrap = bootstrap};
    const auto error = failure_of("cuda_ipc", options, pass_on_once);
    require(error && error->kind() == ErrorKind::not_available, what(error));
    require(what(error) ==
                "cuda_ipc: the processes run on host0 and on host1, and share no memory; it joins "
                "those of one machine, nccl, mpi and ucx any",
            what(error));
    require(!failure_of("nccl", options, pass_on_once), "nccl refuses them, too");
  }));
}

}  // namespace nccl_hosts_test
}  // namespace ringspan::comm
