// SPDX-License-Identifier: Apache-2.0
#include "model/mesh.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "attention/schedules/usp_position.hpp"
#include "comm/collectives.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model {
namespace {

using Ranks = std::vector<int>;

Ranks world_ranks(const comm::Communicator& group) {
  Ranks ranks;
  for (int rank = 0; rank < group.size(); ++rank) ranks.push_back(group.world_rank(rank));
  return ranks;
}

std::vector<MeshPosition> plain_positions(const MeshShape& shape) {
  const int ranks = shape.tensor * shape.sequence() * shape.data() * shape.pipeline;
  return mesh_positions(shape, comm::even_places(ranks, 0));
}

TEST(MeshPositionTest, CountsUpFromTensorToPipeline) {
  const auto positions = plain_positions({2, 3, 2, 2, 3, 2});
  ASSERT_EQ(positions.size(), 144);
  EXPECT_EQ(positions[1], (MeshPosition{.tensor = 1}));
  EXPECT_EQ(positions[2], (MeshPosition{.sequence = 1, .ulysses = 1}));
  EXPECT_EQ(positions[6], (MeshPosition{.sequence = 3, .ring = 1}));
  EXPECT_EQ(positions[12], (MeshPosition{.shard = 1}));
  EXPECT_EQ(positions[24], (MeshPosition{.replicate = 1}));
  EXPECT_EQ(positions[72], (MeshPosition{.pipeline = 1}));
  EXPECT_EQ(positions[143], (MeshPosition{1, 5, 2, 1, 1, 2, 1}));
}

TEST(MeshPositionTest, TheFifthOfEightRanksBeginsTheSecondReplica) {
  const MeshPosition fifth = plain_positions({.ulysses = 2, .ring = 2, .replicate = 2})[4];
  EXPECT_EQ(fifth, (MeshPosition{.replicate = 1}));
}

TEST(MeshPositionTest, RingInnerPutsTheRingBeforeUlysses) {
  const auto positions =
      plain_positions({.ulysses = 2, .ring = 3, .placement = attention::Placement::ring_inner});
  EXPECT_EQ(positions[1], (MeshPosition{.sequence = 1, .ring = 1}));
  EXPECT_EQ(positions[3], (MeshPosition{.sequence = 3, .ulysses = 1}));
}

// Ranks dealt to two nodes in turn: ulysses stays inside nodes all the same.
TEST(MeshPositionTest, KeepsTheInnerDimensionWithinNodes) {
  std::vector<comm::Place> places(8);
  for (int rank = 0; rank < 8; ++rank) places[rank].node = rank % 2;
  const auto positions = mesh_positions({.ulysses = 2, .ring = 2, .shard = 2}, places);
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (positions[a].shard == positions[b].shard && positions[a].ring == positions[b].ring) {
        EXPECT_EQ(places[a].node, places[b].node) << a << ' ' << b;
      }
    }
  }
}

/// Groups of a mesh by their names, and the axes along which their members differ.
struct Group {
  const char* name;
  const comm::Communicator& (Mesh::*communicator)() const;
  std::vector<int MeshPosition::*> along;
};
const Group kGroups[] = {
    {"tensor", &Mesh::tensor, {&MeshPosition::tensor}},
    {"ulysses", &Mesh::ulysses, {&MeshPosition::ulysses}},
    {"ring", &Mesh::ring, {&MeshPosition::ring}},
    {"sequence", &Mesh::sequence, {&MeshPosition::ring, &MeshPosition::ulysses}},
    {"samples",
     &Mesh::samples,
     {&MeshPosition::ring, &MeshPosition::ulysses, &MeshPosition::tensor}},
    {"data", &Mesh::data, {&MeshPosition::shard, &MeshPosition::replicate}},
    {"shard", &Mesh::shard, {&MeshPosition::shard}},
    {"replicate", &Mesh::replicate, {&MeshPosition::replicate}},
    {"gradient",
     &Mesh::gradient,
     {&MeshPosition::ring, &MeshPosition::ulysses, &MeshPosition::shard, &MeshPosition::replicate}},
};
constexpr int MeshPosition::*kAxes[] = {&MeshPosition::tensor,    &MeshPosition::ulysses,
                                        &MeshPosition::ring,      &MeshPosition::shard,
                                        &MeshPosition::replicate, &MeshPosition::pipeline};

/// Whom a rank is with, by comparing positions axis by axis.
std::set<int> members(const std::vector<MeshPosition>& positions, int rank, const Group& group) {
  std::set<int> ranks;
  for (int other = 0; other < std::ssize(positions); ++other) {
    const bool together = std::all_of(std::begin(kAxes), std::end(kAxes), [&](auto axis) {
      return std::count(group.along.begin(), group.along.end(), axis) > 0 ||
             positions[rank].*axis == positions[other].*axis;
    });
    if (together) ranks.insert(other);
  }
  return ranks;
}

using attention::Placement;

const MeshShape kShapes[] = {
    {},
    {.tensor = 2},
    {.ring = 3},
    {.tensor = 2, .ring = 2},
    {.ulysses = 2, .replicate = 2},
    {.shard = 5},
    {.ulysses = 7},
    {.ulysses = 2, .ring = 2, .shard = 2},
    {.ulysses = 2, .ring = 2, .replicate = 2, .placement = Placement::ring_inner},
    {.tensor = 2, .ring = 2, .pipeline = 2},
    {.tensor = 2, .ulysses = 2, .ring = 2, .shard = 2},
};

comm::LaunchOptions options(const MeshShape& shape, int ranks_per_node = 0) {
  return {.ranks = shape.tensor * shape.sequence() * shape.data() * shape.pipeline,
          .ranks_per_node = ranks_per_node,
          .debug = {.ledger = true}};
}

TEST(MeshTest, GroupsHoldTheRanksThatDifferAlongTheirAxesAlone) {
  for (const MeshShape& shape : kShapes) {
    if (!comm::test::enough_processes(options(shape).ranks)) continue;
    comm::test::launch(options(shape), [&](const comm::Communicator& world) {
      const Mesh mesh(world, shape);
      const auto positions = plain_positions(shape);
      EXPECT_EQ(mesh.position(), positions[world.rank()]);
      for (const Group& group : kGroups) {
        const Ranks ranks = world_ranks((mesh.*group.communicator)());
        EXPECT_EQ(std::set<int>(ranks.begin(), ranks.end()),
                  members(positions, world.rank(), group))
            << group.name << " of " << name(shape) << ", rank " << world.rank();
        EXPECT_EQ((mesh.*group.communicator)().world_rank((mesh.*group.communicator)().rank()),
                  world.rank());
      }
      EXPECT_EQ(mesh.tensor().rank(), mesh.position().tensor);
      EXPECT_EQ(mesh.ulysses().rank(), mesh.position().ulysses);
      EXPECT_EQ(mesh.ring().rank(), mesh.position().ring);
      EXPECT_EQ(mesh.sequence().rank(), mesh.position().sequence);
      EXPECT_EQ(mesh.shard().rank(), mesh.position().shard);
      EXPECT_EQ(mesh.replicate().rank(), mesh.position().replicate);
    });
  }
}

// Sums of powers of two say exactly who took part; no message may leave its group.
TEST(MeshTest, GroupsReduceAmongTheirMembers) {
  const MeshShape shape{.tensor = 2, .ulysses = 2, .ring = 2, .shard = 2};
  if (!comm::test::enough_processes(16)) GTEST_SKIP();
  comm::test::launch(options(shape), [&](const comm::Communicator& world) {
    const Mesh mesh(world, shape);
    const auto positions = plain_positions(shape);
    for (const Group& group : kGroups) {
      std::int64_t expected = 0;
      for (const int rank : members(positions, world.rank(), group)) expected |= 1LL << rank;
      EXPECT_EQ(comm::all_reduce((mesh.*group.communicator)(), std::int64_t{1} << world.rank(),
                                 comm::Reduction::sum),
                expected)
          << group.name;
    }
  });
}

TEST(MeshTest, UlyssesAndRingAreThoseOfUspOverTheSequence) {
  for (const Placement placement : {Placement::ulysses_inner, Placement::ring_inner}) {
    const MeshShape shape{.ulysses = 2, .ring = 2, .shard = 2, .placement = placement};
    if (!comm::test::enough_processes(8)) continue;
    for (const int ranks_per_node : {0, 2, 3}) {
      comm::test::launch(options(shape, ranks_per_node), [&](const comm::Communicator& world) {
        const Mesh mesh(world, shape);
        std::vector<comm::Place> places;
        for (int rank = 0; rank < 4; ++rank) places.push_back(mesh.sequence().place(rank));
        const auto usp = attention::usp_positions(2, placement, places)[mesh.sequence().rank()];
        EXPECT_EQ(mesh.ulysses().rank(), usp.ulysses_rank);
        EXPECT_EQ(mesh.ring().rank(), usp.ring_rank);
        EXPECT_EQ(mesh.schedule_options().ulysses_degree, 2);
        EXPECT_EQ(mesh.schedule_options().placement, placement);
      });
    }
  }
}

TEST(MeshTest, RefusesAWorldOfAnotherSizeBeforeAnythingMoves) {
  comm::test::launch({.ranks = 2}, [](const comm::Communicator& world) {
    EXPECT_THROW(Mesh(world, {.tensor = 4}), Error);
    EXPECT_EQ(comm::all_reduce(world, std::int64_t{1}, comm::Reduction::sum), 2);
  });
}

}  // namespace
}  // namespace ringspan::model
