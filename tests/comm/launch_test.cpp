// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "comm/collectives.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace launch_test {

using test::failure_of;
using test::launch;
using test::refusal;

/// One variable set for the time of one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string refusal_of(const char* name, const char* value) {
  const Variable variable(name, value);
  return refusal([] { launch_options_from_environment(); });
}

TEST(LaunchTest, RunsTheBodyOncePerRank) {
  std::atomic<int> bodies{0};  // in this process
  launch({.ranks = 5, .deadline = 20}, [&](const Communicator& comm) {
    EXPECT_EQ(comm.size(), 5);
    EXPECT_EQ(all_reduce(comm, std::int64_t{1 + 10 * comm.rank()}, Reduction::sum), 105);
    ++bodies;
  });
  EXPECT_EQ(bodies, test::on_threads() ? 5 : test::process().rank < 5);
}

TEST(LaunchTest, TakesItsDefaultsFromTheEnvironment) {
  const LaunchOptions plain = launch_options_from_environment();
  EXPECT_EQ(plain.ranks_per_node, 0);
  EXPECT_EQ(plain.deadline, 60);
  EXPECT_FALSE(plain.debug.ledger || plain.debug.poison || plain.debug.max_delay > 0);

  const Variable nodes("RINGSPAN_RANKS_PER_NODE", "2"),
      domains("RINGSPAN_RANKS_PER_NUMA_DOMAIN", "1"), timeout("RINGSPAN_TIMEOUT_S", "0.25"),
      debug("RINGSPAN_DEBUG", "delay,ledger,poison");
  const LaunchOptions options = launch_options_from_environment();
  EXPECT_EQ(options.ranks_per_node, 2);
  EXPECT_EQ(options.ranks_per_numa_domain, 1);
  EXPECT_EQ(options.deadline, 0.25);
  EXPECT_TRUE(options.debug.ledger && options.debug.poison && options.debug.max_delay > 0);
}

TEST(LaunchTest, RefusesVariablesThatDoNotParse) {
  for (const char* value : {"", "two", "-1", "2 ", "2.5", "99999999999"}) {
    EXPECT_EQ(refusal_of("RINGSPAN_RANKS_PER_NODE", value),
              concat("RINGSPAN_RANKS_PER_NODE is '", value,
                     "'; it must be a number of ranks, or 0 for the machine's own"));
  }
  for (const char* value : {"", "0", "-1", "inf", "nan", "1s", "1e999"}) {
    EXPECT_EQ(
        refusal_of("RINGSPAN_TIMEOUT_S", value),
        concat("RINGSPAN_TIMEOUT_S is '", value, "'; it must be a positive number of seconds"));
  }
  for (const char* value : {"", "ledger,", "all", "ledger poison", ",delay"}) {
    EXPECT_EQ(refusal_of("RINGSPAN_DEBUG", value),
              concat("RINGSPAN_DEBUG is '", value,
                     "'; it must be a comma list of ledger, poison, blocking, reachable, delay"));
  }
}

TEST(LaunchTest, ListsTheKnownTransportsWhenOneIsUnknown) {
  const std::string message = refusal([] { comm::launch("carrier_pigeon", {}, {}); });
  EXPECT_EQ(message.find("transport 'carrier_pigeon' is not known; this build has "), 0u);
  for (const Backend& backend : backends())
    EXPECT_NE(message.find(backend.name), std::string::npos);
  EXPECT_EQ(backend(test::transport()).world, test::on_gpus() ? "gpu" : "host");
  EXPECT_EQ(backend(test::transport()).unavailable(), "");
}

TEST(LaunchTest, RefusesMemoryOfGpusWhereThereIsNone) {
  test::only_on_threads("it asks for that transport");
  const auto launch_on_gpus = [] {
    LaunchOptions options;
    options.gpu_memory = true;
    comm::launch("threads", options, [](const Communicator&) {});
  };
  EXPECT_EQ(refusal(launch_on_gpus),
            "launch: transport 'threads' has no memory of GPUs; gpu_memory "
            "is for mpi, ucx, nccl and cuda_ipc");
}

TEST(LaunchTest, RefusesImpossibleOptions) {
  const auto refused = [](const LaunchOptions& options) {
    const auto call = [&] { comm::launch(test::transport(), options, [](auto&) { FAIL(); }); };
    return refusal(call);
  };
  EXPECT_EQ(refused({.ranks = 0}), "launch: 0 ranks; at least 1 is needed");
  EXPECT_NE(refused({.ranks_per_node = -1}), "");
  EXPECT_NE(refused({.ranks_per_numa_domain = -1}), "");
  EXPECT_NE(refused({.deadline = 0}), "");
  EXPECT_NE(refused({.deadline = std::numeric_limits<double>::quiet_NaN()}), "");
  EXPECT_NE(refused({.debug = {.max_delay = -1}}), "");
  EXPECT_NE(refusal([] { comm::launch(test::transport(), {}, {}); }), "");
}

TEST(LaunchTest, PutsRanksOnNodesInOrder) {
  const std::vector<Place> places = even_places(5, 2);
  ASSERT_EQ(places.size(), 5u);
  EXPECT_EQ(places[4].node, 2);
  EXPECT_EQ(places[3].local_rank, 1);
  EXPECT_EQ(even_places(3, 0)[2].node, 0);
  EXPECT_EQ(even_places(3, 0)[2].local_rank, 2);
  EXPECT_EQ(even_places(8, 4)[7].numa_domain, 0);
  EXPECT_EQ(even_places(8, 4, 2)[7].numa_domain, 1);
  EXPECT_EQ(even_places(8, 4, 2)[5].numa_domain, 0);
}

TEST(LaunchTest, RethrowsTheErrorOfARankAsItWas) {
  const auto error = failure_of({.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 1) throw Error(ErrorKind::not_available, "no such thing");
    barrier(comm);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::not_available);
  EXPECT_STREQ(error->what(), "no such thing");
  EXPECT_EQ(error->where().rank, 1);
}

TEST(LaunchTest, TurnsForeignExceptionsIntoErrorsThatNameTheRank) {
  const auto standard = failure_of({.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 2) throw std::out_of_range("boom");
    barrier(comm);
  });
  ASSERT_TRUE(standard);
  EXPECT_EQ(standard->kind(), ErrorKind::peer_failed);
  EXPECT_STREQ(standard->what(), "rank 2: boom");
  EXPECT_EQ(standard->where().peer, 2);

  const auto memory =
      failure_of({.ranks = 1, .deadline = 20}, [](const Communicator&) { throw std::bad_alloc(); });
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->kind(), ErrorKind::system);
  EXPECT_STREQ(memory->what(), "rank 0: out of memory");

  const auto other =
      failure_of({.ranks = 1, .deadline = 20}, [](const Communicator&) { throw 42; });
  ASSERT_TRUE(other);
  EXPECT_STREQ(other->what(), "rank 0: unknown exception");
}

TEST(LaunchTest, TellsPeersWhichRankFailedAndWhy) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
    if (comm.rank() == 1) throw Error(ErrorKind::invalid_argument, "bad shape");
    try {
      barrier(comm);
      ADD_FAILURE() << "barrier without rank 1";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer_failed);
      EXPECT_EQ(error.where().peer, 1);
      EXPECT_STREQ(error.what(), "rank 1 failed: bad shape");
    }
  });
  EXPECT_TRUE(error);
}

TEST(LaunchTest, FailsWhenAFailureOfTheWorldWasSwallowedByAllRanks) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    try {
      if (comm.rank() == 0) comm.abort(Error(ErrorKind::aborted, "enough"));
      barrier(comm);
    } catch (const Error&) {
    }
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "enough");
}

}  // namespace launch_test
}  // namespace ringspan::comm
