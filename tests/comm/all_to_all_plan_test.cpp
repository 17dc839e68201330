// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <optional>

#include "comm/collectives.hpp"
#include "tests/comm/all_to_all_slices.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using namespace test;

TEST(AllToAllPlanTest, AllocatesOnlyWhenItIsCreated) {
  launch({.ranks = 4, .ranks_per_node = 2}, [](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    const std::int64_t before = comm.device().memory().current;
    AllToAll direct(comm, slices.send, slices.recv, AllToAllAlgorithm::direct);
    EXPECT_EQ(comm.device().memory().current, before);
    AllToAll hierarchical(comm, slices.send, slices.recv, AllToAllAlgorithm::hierarchical);
    EXPECT_EQ(comm.device().memory().current, before + 2 * (2 * 24));  // out, and to pass on
    comm.device().reset_peak();
    for (AllToAll* exchange : {&direct, &hierarchical}) {
      exchange->start();
      exchange->finish();
    }
    EXPECT_EQ(comm.device().memory().peak, before + 2 * (2 * 24));
  });
}

TEST(AllToAllPlanTest, SeveralMayBeInFlightAndMove) {
  launch({.ranks = 4, .ranks_per_node = 2, .debug = all_checks(3)}, [](const Communicator& comm) {
    std::vector<Slices> slices;
    std::vector<AllToAll> exchanges;
    for (int i = 0; i < 3; ++i) {
      slices.emplace_back(comm, uneven_sizes);
      for (int peer = 0; peer < comm.size(); ++peer) {
        write_pattern(slices[i].send[peer], comm.rank(), peer, i);
      }
      exchanges.emplace_back(comm, slices[i].send, slices[i].recv,
                             i == 1 ? AllToAllAlgorithm::direct : AllToAllAlgorithm::hierarchical);
    }
    for (AllToAll& exchange : exchanges) exchange.start();
    for (AllToAll& exchange : exchanges) AllToAll(std::move(exchange)).finish();
    for (int i = 0; i < 3; ++i) {
      for (int peer = 0; peer < comm.size(); ++peer) {
        EXPECT_TRUE(has_pattern(slices[i].recv[peer], peer, comm.rank(), i));
      }
    }
  });
}

TEST(AllToAllPlanTest, AutomaticGoesByWhatRankZeroKnowsOnEveryRank) {
  launch({.ranks = 4, .ranks_per_node = 2}, [](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    const auto chosen = [&](const Communicator& knowing) {
      const AllToAll exchange(knowing, slices.send, slices.recv, AllToAllAlgorithm::automatic);
      return exchange.choice().algorithm;
    };
    const MessageCosts slow_network = {{1e-3, 1e-3, 0}, {}, 0};
    EXPECT_EQ(chosen(comm), AllToAllAlgorithm::direct);
    EXPECT_EQ(chosen(comm.knowing(slow_network)), AllToAllAlgorithm::hierarchical);
    EXPECT_EQ(chosen(comm.knowing({})), AllToAllAlgorithm::direct);
    EXPECT_EQ(chosen(comm.rank() == 0 ? comm.knowing(slow_network) : comm),
              AllToAllAlgorithm::hierarchical);
    EXPECT_EQ(chosen(comm.rank() == 0 ? comm : comm.knowing(slow_network)),
              AllToAllAlgorithm::direct);
  });
}

TEST(AllToAllPlanTest, PacksNothingThatLiesInOnePiece) {
  launch({.ranks = 4, .ranks_per_node = 2}, [](const Communicator& comm) {
    const Slice from = whole(comm.device().allocate(4 * 24)), to = in_rows(comm.device(), 96, 4);
    std::vector<Slice> send, recv;
    for (int peer = 0; peer < 4; ++peer) {
      send.push_back(slice(from.buffer, peer * 24, 24));
      recv.push_back(to);
      recv.back().offset += peer * to.stride;
      recv.back().rows = 1;
    }
    const std::int64_t before = comm.device().memory().current;
    const AllToAll exchange(comm, send, recv, AllToAllAlgorithm::hierarchical);
    EXPECT_EQ(comm.device().memory().current, before + 2 * 24);  // what arrives to be passed on
  });
}

TEST(AllToAllPlanTest, RefusesMisuseAndLeavesTheCommunicatorUsable) {
  launch({.ranks = 3}, [](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    std::vector<Slice> few(slices.send.begin(), slices.send.end() - 1), outside = slices.send;
    outside[0].rows = 1000;
    std::vector<Slice> short_self = slices.recv;
    short_self[comm.rank()].rows = 0;
    EXPECT_NE(refusal([&] { all_to_all_v(comm, few, slices.recv); }), "");
    EXPECT_NE(refusal([&] { all_to_all_v(comm, slices.send, few); }), "");
    EXPECT_NE(refusal([&] { all_to_all_v(comm, outside, slices.recv); }), "");
    EXPECT_NE(refusal([&] { all_to_all_v(comm, slices.send, short_self); }), "");
    const Slice ten = whole(comm.device().allocate(10));
    EXPECT_EQ(refusal([&] { all_to_all(comm, ten, ten); }),
              "all_to_all: 10 bytes do not divide into 3 equal chunks; use all_to_all_v");
    AllToAll exchange(comm, slices.send, slices.recv);
    EXPECT_NE(refusal([&] { exchange.finish(); }), "");
    exchange.start();
    EXPECT_NE(refusal([&] { exchange.start(); }), "");
    exchange.finish();
    check_exchanges(comm, AllToAllAlgorithm::direct, equal_sizes);
  });
}

/// Rank 2 expects less than `source` sends: every rank is told so.
void expect_told(AllToAllAlgorithm algorithm, int source) {
  const auto body = [&](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    std::vector<Slice> recv = slices.recv;
    if (comm.rank() == 2) recv[source].row_bytes -= 1;
    try {
      all_to_all_v(comm, slices.send, recv, algorithm);
      barrier(comm);
      ADD_FAILURE() << "rank " << comm.rank() << " is told nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::peer_failed) << error.what();
      EXPECT_EQ(error.where().peer, source) << error.what();
      EXPECT_EQ(error.where().operation, "all_to_all");
      // MPI does not tell how long a message is that does not fit.
      EXPECT_THAT(error.what(), testing::AnyOf(testing::HasSubstr("sends 24 bytes"),
                                               testing::HasSubstr("sends another number")));
      EXPECT_THAT(error.what(), testing::HasSubstr("expects 21 bytes"));
    }
  };
  EXPECT_TRUE(failure_of({.ranks = 4, .ranks_per_node = 2, .deadline = 20}, body));
}

TEST(AllToAllPlanTest, TellsEveryRankThatBothSidesOfAPairDisagree) {
  for (const auto algorithm : {AllToAllAlgorithm::direct, AllToAllAlgorithm::hierarchical}) {
    // The counterpart, another node's other rank, a neighbour.
    for (const int source : {0, 1, 3}) expect_told(algorithm, source);
  }
}

}  // namespace
}  // namespace ringspan::comm
