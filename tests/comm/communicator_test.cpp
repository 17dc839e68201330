// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/forwarding_transport.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using test::launch;
using test::refusal;

std::vector<int> members(const Communicator& comm) {
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) ranks.push_back(comm.world_rank(rank));
  return ranks;
}

TEST(CommunicatorTest, KnowsItsNeighbours) {
  launch({.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    EXPECT_EQ(comm.next(), (comm.rank() + 1) % 3);
    EXPECT_EQ(comm.prev(), (comm.rank() + 2) % 3);
    EXPECT_EQ(members(comm), (std::vector<int>{0, 1, 2}));
  });
}

TEST(CommunicatorTest, SplitsByColorAndOrdersByKeyThenRank) {
  launch({.ranks = 5, .deadline = 20}, [](const Communicator& world) {
    const int keys[] = {7, 3, 1, 3, 7};
    const Communicator part = world.split(world.rank() % 2, keys[world.rank()]);
    EXPECT_EQ(members(part),
              world.rank() % 2 == 0 ? (std::vector<int>{2, 0, 4}) : (std::vector<int>{1, 3}));
    EXPECT_EQ(part.world_rank(part.rank()), world.rank());
    EXPECT_EQ(all_reduce(part, std::int64_t{world.rank()}, Reduction::sum),
              world.rank() % 2 == 0 ? 6 : 4);
  });
}

TEST(CommunicatorTest, SplitsAGroupAgainWithRanksOfTheWorldStillKnown) {
  launch({.ranks = 7, .deadline = 20}, [](const Communicator& world) {
    const Communicator upper = world.split(world.rank() >= 2, 0);
    const Communicator single = upper.split(upper.rank(), 0);
    EXPECT_EQ(members(single), std::vector<int>{world.rank()});
    const Communicator reversed = upper.split(0, -upper.rank());
    EXPECT_EQ(reversed.world_rank(0), world.rank() >= 2 ? 6 : 1);
    barrier(reversed);
  });
}

TEST(CommunicatorTest, PlacesRanksOnPretendedNodes) {
  launch({.ranks = 5, .ranks_per_node = 2, .deadline = 20}, [](const Communicator& world) {
    EXPECT_EQ(world.place(3).node, 1);
    EXPECT_EQ(world.place(3).local_rank, 1);
    EXPECT_EQ(world.place(3).rail, 1);
    EXPECT_EQ(world.place(4).node, 2);
    const Communicator rail = world.split(world.place(world.rank()).rail, 0);
    EXPECT_EQ(rail.size(), world.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(rail.place(rail.rank()).node, world.rank() / 2);
  });
}

TEST(CommunicatorTest, RefusesANegativeColorAndStaysUsable) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& world) {
    EXPECT_EQ(refusal([&] { world.split(-1, 0); }), "split: color -1; a color is not negative");
    EXPECT_EQ(world.split(0, 0).size(), 2);
  });
}

/// Counts the posts that pass through it.
class CountingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    ++posts;
    return inner().post(operation, sends, recvs);
  }
  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    return inner().group(ranks);
  }

  int posts = 0;
};

TEST(CommunicatorTest, GoesThroughAnotherTransport) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& world) {
    const auto counting = std::make_shared<CountingTransport>(world.transport());
    const Communicator observed = world.through(counting);
    barrier(observed);
    EXPECT_EQ(counting->posts, 1);
    EXPECT_EQ(observed.world_rank(1), 1);
    const Communicator single = world.split(world.rank(), 0);
    EXPECT_NE(refusal([&] { world.through(single.transport()); }), "");
    EXPECT_NE(refusal([&] { world.through(nullptr); }), "");
  });
}

}  // namespace
}  // namespace ringspan::comm
