// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/seat.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringspan::comm::processes {
namespace {

Seat seat(const std::string& host, int numa_domain = 0, std::uint64_t adapters = 0) {
  Seat seat;
  host.copy(seat.host.data(), seat.host.size() - 1);
  seat.nearby = {numa_domain, adapters};
  return seat;
}

/// "node numa_domain local_rank rail" of each rank.
std::string text(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places) {
    text += concat(text.empty() ? "" : ", ", place.node, ' ', place.numa_domain, ' ',
                   place.local_rank, ' ', place.rail);
  }
  return text;
}

TEST(PlacesTest, FollowHostNamesInTheOrderInWhichTheyCome) {
  const std::vector<Seat> seats{seat("b"), seat("a"), seat("b"), seat("c"), seat("b")};
  EXPECT_EQ(text(places(seats, {.ranks = 5})), "0 0 0 0, 1 0 0 0, 0 0 1 1, 2 0 0 0, 0 0 2 2");
  EXPECT_EQ(text(places(seats, {.ranks = 3})), "0 0 0 0, 1 0 0 0, 0 0 1 1");
}

TEST(PlacesTest, AreOnTwoNodesWhereTwoMachinesHaveOneName) {
  std::vector<Seat> seats(3, seat("localhost"));
  seats[1].machine[0] = 'x';
  EXPECT_EQ(text(places(seats, {.ranks = 3})), "0 0 0 0, 1 0 0 0, 0 0 1 1");
  EXPECT_EQ(rank_on_host(seats, 1), 0);
}

TEST(PlacesTest, FollowTheDomainsThatProcessesAreBoundTo) {
  const std::vector<Seat> seats{seat("a", 1), seat("a", 0), seat("b", 1)};
  EXPECT_EQ(text(places(seats, {.ranks = 3})), "0 1 0 0, 0 0 1 1, 1 1 0 0");
}

TEST(PlacesTest, GiveOutTheNearAdaptersInTurn) {
  const std::vector<Seat> seats{seat("a", 0, 0b0011), seat("a", 0, 0b0011), seat("a", 0, 0b0011),
                                seat("a", 1, 0b1100), seat("a", 1, 0b1100), seat("b", 0, 0b0011)};
  EXPECT_EQ(text(places(seats, {.ranks = 6})),
            "0 0 0 0, 0 0 1 1, 0 0 2 0, 0 1 3 2, 0 1 4 3, 1 0 0 0");
}

TEST(PlacesTest, AreWhatTheOptionsPretend) {
  const std::vector<Seat> seats(5, seat("a", 1, 0b10));
  EXPECT_EQ(text(places(seats, {.ranks = 5, .ranks_per_node = 2})),
            "0 0 0 0, 0 0 1 1, 1 0 0 0, 1 0 1 1, 2 0 0 0");
  EXPECT_EQ(text(places(seats, {.ranks = 4, .ranks_per_numa_domain = 2})),
            "0 0 0 1, 0 0 1 1, 0 1 2 1, 0 1 3 1");
}

TEST(RankOnHostTest, CountsTheProcessesOfTheHostThatComeBefore) {
  const std::vector<Seat> seats{seat("b"), seat("a"), seat("b"), seat("c"), seat("b")};
  for (int process = 0; process < 5; ++process) {
    EXPECT_EQ(rank_on_host(seats, process), (std::vector{0, 0, 1, 0, 2})[process]);
  }
}

}  // namespace
}  // namespace ringspan::comm::processes
