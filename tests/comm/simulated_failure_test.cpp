// SPDX-License-Identifier: Apache-2.0
// A simulation that cannot go on says why, on every rank, and the next one runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/batch.hpp"
#include "comm/collectives.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_failure_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::optional<Error> failure_of(int ranks, const RankFunction& body, LaunchOptions options = {}) {
  try {
    test::simulate(test::plain_cluster(), ranks, body, std::move(options));
  } catch (const Error& error) {
    return error;
  }
  return {};
}

Request hop(const Communicator& comm, std::int64_t bytes = 1 << 20) {
  return post_pair(comm, "hop", comm.next(), whole(comm.device().allocate(bytes)), comm.prev(),
                   whole(comm.device().allocate(bytes)));
}

class SimulatedFailureTest : public testing::Test {
 protected:
  // Whatever has failed before leaves nothing behind.
  void TearDown() override {
    EXPECT_FALSE(failure_of(4, [](const Communicator& comm) {
      hop(comm).wait();
      barrier(comm);
    }));
  }
};

TEST_F(SimulatedFailureTest, ADeadlockNamesTheRanksAndTheirOperations) {
  const auto failure = failure_of(4, [](const Communicator& comm) {
    const Communicator pair = comm.split(comm.rank() % 2, 0);
    hop(comm).wait();
    if (comm.rank() == 2) hop(pair).wait();  // without rank 0
    hop(comm).wait();
    barrier(comm);
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::timeout);
  EXPECT_EQ(failure->where().peer, 0);
  EXPECT_THAT(failure->what(),
              StartsWith("operation 0, hop, of group 0, 2: posted by 2; not by 0, whose last"));
  EXPECT_THAT(failure->what(), HasSubstr("; rank 3 waits for rank 2 in operation 3, hop"));
  EXPECT_THAT(failure->what(), EndsWith("(deadlock)"));
}

TEST_F(SimulatedFailureTest, ARankThatReturnsEarlyIsMissed) {
  const auto failure = failure_of(3, [](const Communicator& comm) {
    hop(comm).wait();
    if (comm.rank() != 1) hop(comm).wait();
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::peer_failed);
  EXPECT_EQ(failure->where().peer, 1);
  EXPECT_THAT(failure->what(), HasSubstr("operation 1, hop"));
  EXPECT_THAT(failure->what(), HasSubstr("rank 1 has returned"));
}

TEST_F(SimulatedFailureTest, ARankThatThrowsEndsAllOfThem) {
  int told = 0;
  const auto failure = failure_of(4, [&](const Communicator& comm) {
    hop(comm).wait();
    if (comm.rank() == 3) throw std::runtime_error("no more");
    try {
      hop(comm).wait();
      comm.device().synchronize(comm.deadline());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer_failed);
      EXPECT_STREQ(error.what(), "rank 3 failed: rank 3: no more");
      EXPECT_EQ(error.where().rank, comm.rank());
      ++told;
      throw;
    }
  });
  ASSERT_TRUE(failure);
  EXPECT_STREQ(failure->what(), "rank 3: no more");
  EXPECT_EQ(told, 3);
}

TEST_F(SimulatedFailureTest, IsReportedEverAfter) {
  const auto failure = failure_of(2, [](const Communicator& comm) {
    if (comm.rank() == 0) comm.abort(Error(ErrorKind::aborted, "enough"));
    const auto is_reported = [&](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "enough");
        return true;
      }
      return false;
    };
    Device& device = comm.device();
    if (comm.rank() == 1) {
      EXPECT_TRUE(is_reported([&] { hop(comm).wait(), device.synchronize(1); }));
    }
    EXPECT_TRUE(is_reported([&] { hop(comm).wait(); }));
    EXPECT_TRUE(is_reported([&] { device.compute(1, "kernel"); }));
    EXPECT_TRUE(is_reported([&] { device.synchronize(1); }));
    EXPECT_TRUE(is_reported([&] { device.poll(); }));
    EXPECT_TRUE(is_reported([&] { comm.reclaim({}); }));
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::aborted);
}

TEST_F(SimulatedFailureTest, ADroppedRequestIsNamed) {
  const auto failure = failure_of(2, [](const Communicator& comm) {
    if (comm.rank() == 1) {
      const Request dropped = hop(comm);
    } else {
      hop(comm).wait();
    }
    comm.device().synchronize(comm.deadline());
  });
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what(), HasSubstr("rank 1 dropped the pending request of operation 0, hop"));
}

TEST_F(SimulatedFailureTest, HalvesOfAMessageMustAgree) {
  const auto sizes = failure_of(
      2, [](const Communicator& comm) { hop(comm, comm.rank() == 0 ? 1 << 20 : 1 << 21).wait(); });
  ASSERT_TRUE(sizes);
  EXPECT_THAT(sizes->what(), HasSubstr("bytes in operation 0, hop, where rank"));

  const auto order = failure_of(2,
                                [](const Communicator& comm) {
                                  const Communicator part = comm.split(0, comm.rank());
                                  const Communicator& first = comm.rank() == 0 ? comm : part;
                                  const Communicator& second = comm.rank() == 0 ? part : comm;
                                  Request one = hop(first), two = hop(second);
                                  one.wait();
                                  two.wait();
                                },
                                {.debug = {.ledger = true}});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->what(), StartsWith("ledger: "));
  EXPECT_THAT(order->what(), HasSubstr("post in different orders"));
}

TEST_F(SimulatedFailureTest, TestingInVainEnds) {
  const auto failure = failure_of(2,
                                  [](const Communicator& comm) {
                                    if (comm.rank() == 1) comm.device().compute(10, "long");
                                    if (comm.rank() == 1)
                                      comm.device().synchronize(comm.deadline());
                                    Request request = hop(comm);
                                    while (!request.test())
                                      comm.device().compute(1e-3, "between"),
                                          comm.device().synchronize(1);
                                  },
                                  {.deadline = 2});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::timeout);
  EXPECT_EQ(failure->where().peer, 1);
}

TEST_F(SimulatedFailureTest, LeavesNoBufferBehind) {
  std::byte memory[64];
  int made = 0, released = 0;
  const auto buffer = [&] {
    ++made;
    return whole(Buffer(memory, sizeof memory, [&] { ++released; }));
  };
  EXPECT_TRUE(failure_of(3, [&](const Communicator& comm) {
    for (int round = 0; round < 80; ++round) {
      if (round == 3 && comm.rank() == 1) return;
      Request request = hop(comm);
      comm.device().compute(1e-5, "kernel");
      request.wait();
      post_pair(comm, "values", comm.prev(), buffer(), comm.next(),
                whole(comm.device().allocate(64)))
          .wait();
      Request late = post_pair(comm, "late", comm.prev(), buffer(), comm.next(), buffer());
      comm.device().compute(1e-5, "kernel");
      late.wait();
    }
  }));
  EXPECT_GT(made, 0);
  EXPECT_EQ(released, made);
}

// Nothing of it may be called back while the next one runs.
TEST_F(SimulatedFailureTest, WhatOutlivesALaunchIsRefusedAndGoesWithoutEffect) {
  std::vector<Request> requests(2);
  std::vector<Communicator> comms;
  EXPECT_FALSE(failure_of(2, [&](const Communicator& comm) {
    requests[comm.rank()] = hop(comm);
    comms.push_back(comm);
  }));
  EXPECT_THROW(hop(comms[0]).wait(), Error);
  EXPECT_THROW(requests[0].test(), Error);
  comms[0].abort(Error(ErrorKind::aborted, "too late"));
  requests.clear();
  comms.clear();  // TearDown() launches once more
}

// The runtime keeps exceptions per thread, and all ranks share one.
TEST_F(SimulatedFailureTest, RanksMayWaitWhileTheyHandleAnException) {
  EXPECT_FALSE(failure_of(4, [](const Communicator& comm) {
    for (int round = 0; round < 3; ++round) {
      try {
        throw std::runtime_error(std::to_string(comm.rank()));
      } catch (...) {
        EXPECT_EQ(all_reduce(comm, std::int64_t{1}, Reduction::sum), 4);
        comm.device().compute(1e-3 * comm.rank(), "different");
        comm.device().synchronize(comm.deadline());
        try {
          throw;
        } catch (const std::runtime_error& error) {
          EXPECT_EQ(error.what(), std::to_string(comm.rank()));
        }
      }
      EXPECT_EQ(std::uncaught_exceptions(), 0);
    }
  }));
}

TEST_F(SimulatedFailureTest, RefusesWhatItCannotSimulate) {
  const auto refused = [](const std::function<void(LaunchOptions&)>& change) {
    LaunchOptions options{.ranks = 2};
    options.cluster = std::make_shared<const Cluster>(test::plain_cluster());
    change(options);
    try {
      launch("simulated", options, [](const Communicator&) {});
    } catch (const Error& error) {
      return concat(name(error.kind()), ": ", error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([](LaunchOptions&) {}), "");
  EXPECT_THAT(refused([](LaunchOptions& o) { o.cluster = nullptr; }),
              StartsWith("invalid_argument: simulated: no cluster"));
  EXPECT_THAT(refused([](LaunchOptions& o) { o.hop = Hop::reference; }),
              HasSubstr("hops by reference"));
  EXPECT_THAT(refused([](LaunchOptions& o) { o.ranks_per_numa_domain = 2; }),
              HasSubstr("per NUMA domain"));
  EXPECT_THAT(refused([](LaunchOptions& o) { o.bootstrap.emplace(); }), HasSubstr("bootstrap"));
  EXPECT_THAT(refused([](LaunchOptions& o) { o.ranks = 9; }),
              HasSubstr("9 ranks, but it holds 1 nodes of 8"));
  EXPECT_THAT(refused([](LaunchOptions& o) {
                Cluster other = test::plain_cluster();
                other.name = "other";
                o.cluster = std::make_shared<const Cluster>(other);
              }),
              StartsWith("not_available: simulated: this process has simulated cluster 'plain'"));
}

TEST_F(SimulatedFailureTest, ARankCannotLaunchASimulation) {
  const auto failure = failure_of(
      2, [](const Communicator&) { test::simulate(test::plain_cluster(), 2, [](auto&) {}); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::not_available);
}

}  // namespace simulated_failure_test
}  // namespace ringspan::comm
