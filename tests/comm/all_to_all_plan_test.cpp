// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <optional>

#include "comm/collectives.hpp"
#include "tests/comm/all_to_all_slices.hpp"

namespace ringspan::comm {
namespace {

using namespace test;

TEST(AllToAllPlanTest, AllocatesOnlyWhenItIsCreated) {
  launch("threads", {.ranks = 4, .ranks_per_node = 2}, [](const Communicator& comm) {
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
  launch("threads", {.ranks = 4, .ranks_per_node = 2, .debug = all_checks(3)},
         [](const Communicator& comm) {
           std::vector<Slices> slices;
           std::vector<AllToAll> exchanges;
           for (int i = 0; i < 3; ++i) {
             slices.emplace_back(comm, uneven_sizes);
             for (int peer = 0; peer < comm.size(); ++peer) {
               write_pattern(slices[i].send[peer], comm.rank(), peer, i);
             }
             exchanges.emplace_back(
                 comm, slices[i].send, slices[i].recv,
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

TEST(AllToAllPlanTest, AutomaticIsDirectWhereRanksShareMemory) {
  launch("threads", {.ranks = 4, .ranks_per_node = 2}, [](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    const AllToAll exchange(comm, slices.send, slices.recv, AllToAllAlgorithm::automatic);
    EXPECT_EQ(exchange.algorithm(), AllToAllAlgorithm::direct);
  });
}

TEST(AllToAllPlanTest, RefusesMisuseAndLeavesTheCommunicatorUsable) {
  launch("threads", {.ranks = 3}, [](const Communicator& comm) {
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

/// Rank 2 expects less than `source` sends: what every rank is then told.
std::vector<std::optional<Error>> disagree(AllToAllAlgorithm algorithm, int source) {
  std::vector<std::optional<Error>> told(4);
  failure_of({.ranks = 4, .ranks_per_node = 2, .deadline = 20}, [&](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    std::vector<Slice> recv = slices.recv;
    if (comm.rank() == 2) recv[source].row_bytes -= 1;
    try {
      all_to_all_v(comm, slices.send, recv, algorithm);
      barrier(comm);
    } catch (const Error& error) {
      told[comm.rank()] = error;
    }
  });
  return told;
}

TEST(AllToAllPlanTest, TellsEveryRankThatBothSidesOfAPairDisagree) {
  for (const auto algorithm : {AllToAllAlgorithm::direct, AllToAllAlgorithm::hierarchical}) {
    for (const int source : {0, 1, 3}) {  // the counterpart, another node's other rank, a neighbour
      const bool passed_on = algorithm == AllToAllAlgorithm::hierarchical && source == 1;
      for (const auto& error : disagree(algorithm, source)) {
        ASSERT_TRUE(error);
        EXPECT_EQ(error->kind(), ErrorKind::peer_failed) << error->what();
        EXPECT_EQ(error->where().peer, passed_on ? 3 : source) << error->what();
        EXPECT_EQ(error->where().operation, "all_to_all");
        EXPECT_THAT(error->what(), testing::HasSubstr("sends 24 bytes"));
        EXPECT_THAT(error->what(), testing::HasSubstr("expects 21 bytes"));
      }
    }
  }
}

TEST(ChooseAllToAllTest, PrefersHierarchicalBelowTheCrossover) {
  // 4 us and 1 us; 300 GB/s inside the node; 1.5 TB/s to copy. 4 nodes of 8: 3 us buy
  // 1 / 300e9 + 9/7 / 1.5e12 seconds per byte, that is 716,000 bytes.
  const MessageCosts costs = {4e-6, 1e-6, 1 / 300e9, 1 / 1.5e12};
  const double crossover = 3e-6 / (1 / 300e9 + 9.0 / 7 / 1.5e12);
  EXPECT_NEAR(crossover, 715'909, 1);
  const auto choice = [&](double bytes) {
    return choose_all_to_all(costs, static_cast<std::int64_t>(bytes), 4, 8);
  };
  EXPECT_EQ(choice(0), AllToAllAlgorithm::hierarchical);
  EXPECT_EQ(choice(0.99 * crossover), AllToAllAlgorithm::hierarchical);
  EXPECT_EQ(choice(1.01 * crossover), AllToAllAlgorithm::direct);
  EXPECT_EQ(choice(1e15), AllToAllAlgorithm::direct);
}

TEST(ChooseAllToAllTest, IsDirectWhereThereIsNothingToGain) {
  const MessageCosts costs = {4e-6, 1e-6, 1 / 300e9, 1 / 1.5e12};
  EXPECT_EQ(choose_all_to_all(costs, 8, 1, 8), AllToAllAlgorithm::direct);  // one node
  EXPECT_EQ(choose_all_to_all(costs, 8, 8, 1), AllToAllAlgorithm::direct);  // one rank per node
  EXPECT_EQ(choose_all_to_all({1e-6, 1e-6, 0, 0}, 8, 4, 8), AllToAllAlgorithm::direct);
}

}  // namespace
}  // namespace ringspan::comm
