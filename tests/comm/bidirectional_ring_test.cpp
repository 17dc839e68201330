// SPDX-License-Identifier: Apache-2.0
#include "comm/bidirectional_ring.hpp"

#include <tuple>

#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace bidirectional_ring_test {

using Halves = BidirectionalRing::Halves;
using test::has_pattern;
using test::launch;
using test::refusal;
using test::write_pattern;

constexpr int kFront = 1, kBack = 2;  // what the pattern calls the halves

class BidirectionalRingTest : public testing::TestWithParam<std::tuple<int, Hop>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  Hop hop() const { return std::get<1>(GetParam()); }

  void run(const RankFunction& body) const {
    launch({.ranks = ranks(), .hop = hop(), .deadline = 20, .debug = test::all_checks(11)}, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, BidirectionalRingTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 7),
                                          testing::Values(Hop::copy, Hop::reference)),
                         [](const auto& info) {
                           return concat(
                               std::get<0>(info.param), "ranks_",
                               std::get<1>(info.param) == Hop::copy ? "copy" : "reference");
                         });

using Sizes = std::function<Halves(int owner)>;

void expect_halves(const BidirectionalRing& ring, const Communicator& comm, int hops, int round,
                   const Sizes& sizes) {
  const int size = comm.size(), ahead = (comm.rank() + hops) % size;
  const int behind = (comm.rank() + size - hops % size) % size;
  EXPECT_TRUE(has_pattern(slice(ring.front(), 0, sizes(behind).front), behind, kFront, round));
  EXPECT_TRUE(has_pattern(slice(ring.back(), 0, sizes(ahead).back), ahead, kBack, round));
}

/// One turn: every half visits every rank, is read while it moves on, and comes home.
void turn(BidirectionalRing& ring, const Communicator& comm, int round, const Sizes& sizes) {
  const int rank = comm.rank(), size = comm.size();
  ring.begin();
  write_pattern(slice(ring.front(), 0, sizes(rank).front), rank, kFront, round);
  write_pattern(slice(ring.back(), 0, sizes(rank).back), rank, kBack, round);
  for (int hop = 0; hop < size; ++hop) {
    const int behind = (rank + size - hop) % size, ahead = (rank + hop) % size;
    const int farther_behind = (behind + size - 1) % size, farther_ahead = (ahead + 1) % size;
    ring.start({sizes(behind).front, sizes(ahead).back},
               {sizes(farther_behind).front, sizes(farther_ahead).back});
    expect_halves(ring, comm, hop, round, sizes);
    ring.finish();
  }
  expect_halves(ring, comm, size, round, sizes);
}

TEST_P(BidirectionalRingTest, ReturnsHomeAfterSizeHops) {
  run([](const Communicator& comm) {
    BidirectionalRing ring(comm, {500, 500});
    for (int round = 0; round < 3; ++round) {
      turn(ring, comm, round, [](int) { return Halves{500, 500}; });
    }
  });
}

TEST_P(BidirectionalRingTest, CarriesUnevenHalvesAndEmptyOnes) {
  run([](const Communicator& comm) {
    const auto sizes = [](int owner) {
      return Halves{owner % 3 == 1 ? 0 : 50 * owner + 1, owner % 2 == 1 ? 0 : 30 * owner + 7};
    };
    BidirectionalRing ring(comm, {301, 187});
    for (int round = 0; round < 3; ++round) turn(ring, comm, round, sizes);
  });
}

TEST_P(BidirectionalRingTest, ABlockWithoutASecondHalfGoesOneWay) {
  run([](const Communicator& comm) {
    BidirectionalRing ahead(comm, {64, 0}), back(comm, {0, 64});
    turn(ahead, comm, 0, [](int) { return Halves{64, 0}; });
    turn(back, comm, 1, [](int) { return Halves{0, 64}; });
  });
}

TEST_P(BidirectionalRingTest, RunsInStridedGroups) {
  run([](const Communicator& comm) {
    const Communicator group = comm.split(comm.rank() % 2, -comm.rank());
    BidirectionalRing ring(group, {128, 64});
    for (int round = 0; round < 2; ++round) {
      turn(ring, group, round, [](int) { return Halves{128, 64}; });
    }
  });
}

TEST_P(BidirectionalRingTest, SendsTheBytesOfOneRingInTwiceTheMessages) {
  run([](const Communicator& comm) {
    BidirectionalRing ring(comm, {4096, 4096});
    const Traffic before = comm.traffic();
    turn(ring, comm, 0, [](int) { return Halves{4096, 4096}; });
    const Traffic after = comm.traffic();
    const std::int64_t hops = comm.size() > 1 ? comm.size() : 0;
    EXPECT_EQ(after.messages_sent - before.messages_sent, 2 * hops);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, hops * 8192);
  });
}

TEST_P(BidirectionalRingTest, RefusesMisuseAndGoesOn) {
  run([](const Communicator& comm) {
    EXPECT_NE(refusal([&] { BidirectionalRing ring(comm, {1, -1}); }), "");
    BidirectionalRing ring(comm, {10, 20});
    EXPECT_NE(refusal([&] { ring.finish(); }), "");
    EXPECT_NE(refusal([&] { ring.start({11, 20}, {10, 20}); }), "");
    EXPECT_NE(refusal([&] { ring.start({10, 21}, {10, 20}); }), "");
    EXPECT_NE(refusal([&] { ring.start({10, 20}, {10, -1}); }), "");
    ring.begin();
    write_pattern(whole(ring.front()), comm.rank(), kFront, 0);
    write_pattern(whole(ring.back()), comm.rank(), kBack, 0);
    ring.start({10, 20}, {10, 20});
    EXPECT_NE(refusal([&] { ring.start({10, 20}, {10, 20}); }), "");
    EXPECT_NE(refusal([&] { ring.begin(); }), "");
    ring.finish();
    expect_halves(ring, comm, 1, 0, [](int) { return Halves{10, 20}; });
  });
}

}  // namespace bidirectional_ring_test
}  // namespace ringspan::comm
