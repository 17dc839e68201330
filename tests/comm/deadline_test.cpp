// SPDX-License-Identifier: Apache-2.0
// How waits end when something goes wrong: in time, on every rank, with the same first cause.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::launch;

TEST(DeadlineTest, BuffersNothingSoThatSendingFirstOnBothSidesIsADeadlock) {
  test::only_on_threads("others may buffer small messages");
  const auto error = failure_of({.ranks = 2, .deadline = 0.05}, [](const Communicator& comm) {
    const Buffer buffer = comm.device().allocate(8);
    Send sends[] = {{comm.next(), whole(buffer)}};
    comm.post("send_first", sends, {}).wait();
    Recv recvs[] = {{comm.prev(), whole(buffer)}};
    comm.post("then_receive", {}, recvs).wait();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  const std::string message = error->what();
  EXPECT_NE(message.find("operation 0, send_first: posted by all"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 0 waits for rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 1 waits for rank 0"), std::string::npos) << message;
}

TEST(DeadlineTest, WaitsForASlowRankThatMakesProgressEvenBehindOthersThatWait) {
  launch({.ranks = 4, .deadline = 0.2}, [](const Communicator& comm) {
    const double end = comm.device().now() + 0.8;
    if (comm.rank() == 0)
      while (comm.device().now() < end) comm.device().poll();
    Buffer token = comm.device().allocate(1);  // passed from 0 to 1 to 2 to 3
    if (comm.rank() > 0) {
      Recv recvs[] = {{comm.prev(), whole(token)}};
      comm.post("chain", {}, recvs).wait();
    }
    if (comm.rank() + 1 < comm.size()) {
      Send sends[] = {{comm.next(), whole(token)}};
      comm.post("chain", sends, {}).wait();
    }
  });
}

/// Says nothing until another rank has failed, or, where that is another process, for so long.
void stay_silent(const std::atomic<bool>& failed, std::chrono::milliseconds among_processes) {
  const auto longest = test::on_threads() ? std::chrono::milliseconds(20'000) : among_processes;
  for (const auto end = std::chrono::steady_clock::now() + longest;
       !failed && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(DeadlineTest, NamesTheSilentRankBehindAChainOfWaits) {
  std::atomic<bool> failed{false};
  const auto chain = [](const Communicator& comm) {
    const Buffer token = comm.device().allocate(1);
    Recv recvs[] = {{comm.prev(), whole(token)}};
    comm.post("chain", {}, recvs).wait();
    Send sends[] = {{comm.next(), whole(token)}};
    comm.post("chain", sends, {}).wait();
  };
  const auto error = failure_of({.ranks = 4, .deadline = 0.05}, [&](const Communicator& comm) {
    if (comm.rank() == 0) return stay_silent(failed, std::chrono::milliseconds(1500));
    EXPECT_THROW(chain(comm), Error);
    failed = true;
  });
  ASSERT_TRUE(error);
  if (test::process().size > 1 && test::process().rank == 0) return;  // slept longer than they stay
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  EXPECT_EQ(error->where().peer, 0);
  EXPECT_EQ(error->where().operation, "chain");
  EXPECT_EQ(error->where().sequence, 0);
}

TEST(DeadlineTest, BlamesTheSilentOneOfTwoPeers) {
  std::atomic<bool> failed{false};
  const auto error = failure_of({.ranks = 3, .deadline = 0.1}, [&](const Communicator& comm) {
    if (comm.rank() == 1)
      for (;;) comm.device().poll();  // alive until it hears of the failure
    if (comm.rank() == 2) return stay_silent(failed, std::chrono::milliseconds(1500));
    Recv recvs[] = {{1, whole(comm.device().allocate(1))}, {2, whole(comm.device().allocate(1))}};
    EXPECT_THROW(comm.post("both", {}, recvs).wait(), Error);
    failed = true;
  });
  ASSERT_TRUE(error);
  if (test::process().rank == 2) return;  // slept until after the others had left
  EXPECT_EQ(error->kind(), ErrorKind::timeout) << error->what();
  EXPECT_EQ(error->where().peer, 2) << error->what();
}

// Rank 2 gives up first, for the others have waited for others before. It has to know that rank 1
// has posted what rank 0 waits for, in a group made before many others.
TEST(DeadlineTest, BlamesTheSameRankHoweverManyGroupsThereAre) {
  test::not_on_gpus("a stream waits for all that was posted before");
  const auto error = failure_of({.ranks = 3, .deadline = 0.3}, [](const Communicator& comm) {
    const int rank = comm.rank();
    const Communicator first_two = comm.split(rank / 2, 0), outer = comm.split(rank % 2, 0);
    for (int i = 0; i < 60; ++i) comm.split(0, 0);
    const Buffer buffer = comm.device().allocate(8), other = comm.device().allocate(8);
    Recv of_peer[] = {{1 - rank / 2 - rank % 2, whole(buffer)}};  // of the other one of two
    Recv of_last[] = {{rank == 0 ? 1 : 2, whole(other)}};         // rank 2, as the group counts
    Request first, second;
    if (rank == 0) first = outer.post("outer", {}, of_last);
    if (rank < 2) second = first_two.post("first_two", {}, of_peer);
    if (rank == 0) second.wait();
    if (rank == 1) comm.post("world", {}, of_last).wait();
    if (rank == 2) outer.post("outer", {}, of_peer).wait();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 2) << error->what();
}

TEST(DeadlineTest, BlamesARankThatIsSilentSinceItTestedARequest) {
  std::atomic<bool> failed{false};
  const auto error = failure_of({.ranks = 3, .deadline = 0.1}, [&](const Communicator& comm) {
    if (comm.rank() == 1)
      for (;;) comm.device().poll();  // alive until it hears of the failure
    Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(1))}};
    Request request = comm.post("from_prev", {}, recvs);
    if (comm.rank() == 2) {
      EXPECT_FALSE(request.test());
      return stay_silent(failed, std::chrono::milliseconds(1500));
    }
    EXPECT_THROW(request.wait(), Error);
    failed = true;
  });
  ASSERT_TRUE(error);
  if (test::process().rank == 2) return;  // slept until after the others had left
  EXPECT_EQ(error->kind(), ErrorKind::timeout) << error->what();
  EXPECT_EQ(error->where().peer, 2) << error->what();
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What share of a core this rank takes while it waits for rank 0, which computes.
double share_while_waiting(const Communicator& comm) {
  barrier(comm);
  const double start = comm.device().now(), busy = thread_seconds();
  while (comm.rank() == 0 && comm.device().now() < start + 0.2) comm.device().poll();
  barrier(comm);
  return (thread_seconds() - busy) / (comm.device().now() - start);
}

// A rank that spun would take the core of one that computes, in each of the stretches: the least
// counts, for what a busy machine adds is not the wait's. Nobody wakes a process, nor a host that
// waits for its GPU: it looks now and then.
void expect_sleeping_waits(int ranks) {
  launch({.ranks = ranks, .deadline = 1}, [](const Communicator& comm) {
    double least = 1;
    for (int stretch = 0; stretch < 3; ++stretch)
      least = std::min(least, share_while_waiting(comm));
    if (comm.rank() == 0) return;
    EXPECT_LT(least, test::transport() == "threads" ? 0.005 : 0.02);
  });
}

TEST(DeadlineTest, SleepsInWaitsWhereRanksOutnumberCores) {
#ifdef __SANITIZE_THREAD__
  test::only_on_threads("a look at a request takes this sanitizer several times as long");
#endif
  expect_sleeping_waits(static_cast<int>(std::thread::hardware_concurrency()) + 2);
}

#if defined(__linux__)
TEST(DeadlineTest, SleepsInWaitsWhereAllRanksAreConfinedToOneCore) {
  test::only_on_threads("processes stay on the cores that they were started on");
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  expect_sleeping_waits(2);
  EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}
#endif

TEST(DeadlineTest, NoticesAtOnceThatARankHasReturned) {
  const auto start = std::chrono::steady_clock::now();
  const auto error = failure_of({.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() != 1) barrier(comm);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::peer_failed);
  EXPECT_EQ(error->where().peer, 1);
  EXPECT_NE(std::string(error->what()).find("rank 1 has returned"), std::string::npos);
}

TEST(DeadlineTest, NeverTakesAReturnAfterTheLastMessageForAFailure) {
  const int ranks = test::on_threads() ? 16 : test::process().size;
  for (int repetition = 0; repetition < 100; ++repetition) {
    launch({.ranks = ranks, .deadline = 20}, [](const Communicator& comm) {
      std::vector<Send> sends;
      std::vector<Recv> recvs;
      for (int peer = 0; peer < comm.size(); ++peer) {
        sends.push_back({peer, {}});
        recvs.push_back({peer, {}});
      }
      comm.post("last", sends, recvs).wait();
    });
  }
}

TEST(DeadlineTest, TellsAPollingKernelOfAFailureElsewhere) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 1) throw std::runtime_error("boom");
    for (;;) comm.device().poll();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 1);
}

TEST(DeadlineTest, AbortReachesEveryRankWithTheFirstCause) {
  const auto error = failure_of({.ranks = 3, .deadline = 20}, [&](const Communicator& comm) {
    if (comm.rank() == 1) {
      comm.abort(Error(ErrorKind::aborted, "enough"));
      comm.abort(Error(ErrorKind::aborted, "too late"));
    }
    for (int attempt = 0; attempt < 2; ++attempt) {  // the same again and again
      try {
        barrier(comm);
        ADD_FAILURE() << "barrier after abort";
      } catch (const Error& caught) {
        EXPECT_STREQ(caught.what(), "enough");
        EXPECT_EQ(caught.where().rank, comm.rank());
        EXPECT_EQ(caught.where().peer, 1);
      }
    }
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::aborted);
}

}  // namespace
}  // namespace ringspan::comm
