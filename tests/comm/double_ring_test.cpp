// SPDX-License-Identifier: Apache-2.0
#include "comm/double_ring.hpp"

#include <numeric>
#include <set>
#include <tuple>

#include "comm/collectives.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace double_ring_test {

using test::has_pattern;
using test::launch;
using test::refusal;
using test::write_pattern;

/// Ranks in all, and in an inner ring.
struct Shape {
  int ranks, inner;
};

class DoubleRingTest : public testing::TestWithParam<std::tuple<Shape, Hop>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()).ranks; }
  int inner() const { return std::get<0>(GetParam()).inner; }
  Hop hop() const { return std::get<1>(GetParam()); }

  void run(const RankFunction& body, DebugOptions debug = test::all_checks(13)) const {
    launch(
        {.ranks = ranks(), .ranks_per_node = inner(), .hop = hop(), .deadline = 20, .debug = debug},
        body);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Ranks, DoubleRingTest,
    testing::Combine(testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{2, 2}, Shape{3, 1},
                                     Shape{3, 3}, Shape{4, 1}, Shape{4, 2}, Shape{4, 4},
                                     Shape{5, 1}, Shape{5, 5}, Shape{6, 2}, Shape{6, 3},
                                     Shape{7, 7}, Shape{9, 3}),
                     testing::Values(Hop::copy, Hop::reference)),
    [](const auto& info) {
      return concat(std::get<0>(info.param).ranks, "ranks_", std::get<0>(info.param).inner,
                    "inner_", std::get<1>(info.param) == Hop::copy ? "copy" : "reference");
    });

/// One turn: every block visits every rank once, its own node's before those of others, and is read
/// while it moves on.
void turn(DoubleRing& ring, const Communicator& comm, int inner, int round,
          const std::vector<std::int64_t>& bytes) {
  write_pattern(slice(ring.begin(), 0, bytes[comm.rank()]), comm.rank(), 0, round);
  std::set<int> seen;
  for (int step = 0; step < comm.size(); ++step) {
    const int owner = ring.owner(), nodes = comm.size() / inner;
    EXPECT_EQ(owner / inner, (comm.rank() / inner + nodes - step / inner) % nodes);
    EXPECT_TRUE(seen.insert(owner).second) << "owner " << owner << " came twice";
    ring.start();
    EXPECT_TRUE(has_pattern(slice(ring.block(), 0, bytes[owner]), owner, 0, round));
    ring.finish();
  }
}

TEST_P(DoubleRingTest, ShowsEveryBlockToEveryRankOnce) {
  run([&](const Communicator& comm) {
    const std::vector<std::int64_t> bytes(ranks(), 1000);
    DoubleRing ring(comm, inner(), bytes);
    for (int round = 0; round < 3; ++round) turn(ring, comm, inner(), round, bytes);
  });
}

TEST_P(DoubleRingTest, CarriesBlocksOfUnevenSizesAndEmptyOnes) {
  run([&](const Communicator& comm) {
    std::vector<std::int64_t> bytes;
    for (int owner = 0; owner < ranks(); ++owner)
      bytes.push_back(owner % 3 == 1 ? 0 : 100 * owner + 1);
    DoubleRing ring(comm, inner(), bytes);
    for (int round = 0; round < 3; ++round) turn(ring, comm, inner(), round, bytes);
  });
}

TEST_P(DoubleRingTest, CarriesNothingAtAll) {
  run([&](const Communicator& comm) {
    const std::vector<std::int64_t> bytes(ranks(), 0);
    DoubleRing ring(comm, inner(), bytes);
    const std::int64_t before = comm.traffic().messages_sent;
    turn(ring, comm, inner(), 0, bytes);
    EXPECT_EQ(comm.traffic().messages_sent, before);
  });
}

TEST_P(DoubleRingTest, RunsInGroups) {
  run([&](const Communicator& comm) {
    const Communicator group = comm.split(comm.rank() / inner(), -comm.rank());
    const std::vector<std::int64_t> bytes(group.size(), 128);
    DoubleRing ring(group, group.size(), bytes);
    for (int round = 0; round < 2; ++round) turn(ring, group, group.size(), round, bytes);
  });
}

TEST_P(DoubleRingTest, SendsOneMessagePerStepAndOnePerOuterStepToAnotherNode) {
  run([&](const Communicator& comm) {
    const std::vector<std::int64_t> bytes(ranks(), 4096);
    DoubleRing ring(comm, inner(), bytes);
    const Traffic before = comm.traffic();
    turn(ring, comm, inner(), 0, bytes);
    const Traffic after = comm.traffic();
    EXPECT_EQ(after.messages_sent - before.messages_sent, ranks() - 1);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, (ranks() - 1) * 4096);
    EXPECT_EQ(after.inter_node_bytes_sent - before.inter_node_bytes_sent,
              (ranks() / inner() - 1) * 4096);
    EXPECT_EQ(after.bytes_copied - before.bytes_copied,
              hop() == Hop::copy ? (ranks() - 1) * 4096 : 0);
  });
}

// Two where hops copy and one where they lend, for each ring that has more than one rank.
TEST_P(DoubleRingTest, NeedsTwoBlocksPerRingWhereHopsCopyAndOneWhereTheyLend) {
  run([&](const Communicator& comm) {
    const std::vector<std::int64_t> bytes(ranks(), 5000);
    barrier(comm);
    const std::int64_t before = comm.device().memory().current;
    DoubleRing ring(comm, inner(), bytes);
    barrier(comm);
    comm.device().reset_peak();
    for (int round = 0; round < 2; ++round) turn(ring, comm, inner(), round, bytes);
    const int rings = inner() > 1 && inner() < ranks() ? 2 : 1;
    const std::int64_t blocks = rings * (hop() == Hop::copy ? 2 : 1);
    EXPECT_EQ(comm.device().memory().peak - before, blocks * 5000);
  });
}

TEST_P(DoubleRingTest, RefusesMisuseAndGoesOn) {
  run([&](const Communicator& comm) {
    std::vector<std::int64_t> bytes(ranks(), 10);
    EXPECT_NE(refusal([&] { DoubleRing ring(comm, 0, bytes); }), "");
    EXPECT_NE(refusal([&] { DoubleRing ring(comm, ranks() + 1, bytes); }), "");
    EXPECT_NE(refusal([&] { DoubleRing ring(comm, inner(), {}); }), "");
    bytes.back() = -1;
    EXPECT_NE(refusal([&] { DoubleRing ring(comm, inner(), bytes); }), "");
    bytes.back() = 10;
    DoubleRing ring(comm, inner(), bytes);
    EXPECT_NE(refusal([&] { ring.finish(); }), "");
    write_pattern(whole(ring.begin()), comm.rank(), 0, 0);
    for (int step = 0; step < ranks(); ++step) {
      if (step > 0) {
        EXPECT_NE(refusal([&] { ring.begin(); }), "");
      }
      ring.start();
      EXPECT_NE(refusal([&] { ring.start(); }), "");
      EXPECT_TRUE(has_pattern(whole(ring.block()), ring.owner(), 0, 0));
      ring.finish();
    }
    EXPECT_NE(refusal([&] { ring.start(); }), "");
  });
}

TEST_P(DoubleRingTest, RefusesStepsThatItCannotTakeBeforeAnythingIsPosted) {
  run([&](const Communicator& comm) {
    using Steps = std::vector<DoubleRing::Step>;
    const Communicator in_node = comm.split(comm.rank() / inner(), comm.rank());
    const Communicator between = comm.split(comm.rank() % inner(), comm.rank());
    const auto refused = [&](const Steps& steps) {
      return refusal([&] { DoubleRing ring(in_node, between, 10, steps); }) != "";
    };
    EXPECT_FALSE(refused({{0, 0, {10, 0}, {0, 10}}}));
    EXPECT_TRUE(refused({}));
    EXPECT_TRUE(refused({{0, 0, {11, 0}}}));
    EXPECT_TRUE(refused({{0, 0, {0, 11}}}));
    EXPECT_TRUE(refused({{0, 0, {}, {-1, 0}}}));
    EXPECT_TRUE(refused({{0, 0, {}, {0, 11}}}));
    EXPECT_TRUE(refused({{0, 1}}));
    EXPECT_TRUE(refused({{0, 0}, {0, 0}}));
    EXPECT_TRUE(refused({{0, 0}, {2, 0}}));
    EXPECT_EQ(refused({{0, 0}, {0, 1}}), inner() < 2);
    EXPECT_EQ(refused({{0, 0}, {1, 0}}), ranks() / inner() < 2);
  });
}

/// A second turn rewrites the own block, which ranks of both rings may still be reading.
TEST_P(DoubleRingTest, BeginWaitsForSlowReaders) {
  run(
      [&](const Communicator& comm) {
        const std::vector<std::int64_t> bytes(ranks(), 512);
        DoubleRing ring(comm, inner(), bytes);
        for (int round = 0; round < 5; ++round) {
          write_pattern(whole(ring.begin()), comm.rank(), 0, round);
          for (int step = 0; step < ranks(); ++step) {
            ring.start();
            const bool slow = comm.rank() == ranks() - 1 && step >= ranks() - inner();
            const double until = comm.device().now() + (slow ? 1e-3 : 0);
            do {
              EXPECT_TRUE(has_pattern(whole(ring.block()), ring.owner(), 0, round));
            } while (comm.device().now() < until);
            ring.finish();
          }
        }
      },
      {.poison = true});
}

}  // namespace double_ring_test
}  // namespace ringspan::comm
