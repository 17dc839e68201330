// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/usp_position.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::attention {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Groups = std::vector<std::vector<int>>;

/// [rank] from the nodes of the ranks, and their NUMA domains.
std::vector<comm::Place> places(const std::vector<int>& nodes, std::vector<int> domains = {}) {
  std::vector<comm::Place> places;
  domains.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    places.push_back({.node = nodes[i], .numa_domain = domains[i]});
  }
  return places;
}

/// [ring rank][ulysses rank]: rank.
Groups ulysses_groups(int degree, Placement placement, const std::vector<comm::Place>& places) {
  const std::vector<UspPosition> positions = usp_positions(degree, placement, places);
  Groups groups(positions[0].ring_degree, std::vector<int>(positions[0].ulysses_degree, -1));
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    const UspPosition& at = positions[rank];
    groups[at.ring_rank][at.ulysses_rank] = static_cast<int>(rank);
  }
  return groups;
}

Groups inner(int degree, const std::vector<comm::Place>& places) {
  return ulysses_groups(degree, Placement::ulysses_inner, places);
}

TEST(UspPositionTest, IsRankArithmeticWhereNodesAreEvenAndInOrder) {
  const std::vector<comm::Place> even = comm::even_places(6, 2);
  EXPECT_THAT(inner(2, even), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(ulysses_groups(3, Placement::ring_inner, even),
              ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
  EXPECT_THAT(inner(3, even), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

TEST(UspPositionTest, StaysInsideNodesWhateverTheOrderOfTheRanks) {
  const auto alternating = places({0, 1, 0, 1, 0, 1});
  EXPECT_THAT(inner(3, alternating), ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
  EXPECT_THAT(ulysses_groups(2, Placement::ring_inner, alternating),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
}

TEST(UspPositionTest, LeavesUnevenNodesWithAsFewGroupsAcrossAsCanBe) {
  EXPECT_THAT(
      inner(2, places({0, 0, 0, 1, 1, 1, 1, 2})),
      ElementsAre(ElementsAre(0, 1), ElementsAre(2, 7), ElementsAre(3, 4), ElementsAre(5, 6)));
}

TEST(UspPositionTest, PrefersOneNumaDomainToOneNode) {
  EXPECT_THAT(inner(2, places({0, 0, 0, 0}, {0, 1, 0, 1})),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(inner(2, places({0, 0, 0, 0, 1, 1}, {0, 1, 1, 1, 0, 1})),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2), ElementsAre(4, 5)));
}

TEST(UspPositionTest, TakesTheRanksOfANodeForADegreeThatIsNotGiven) {
  EXPECT_EQ(usp_positions(0, Placement::ulysses_inner, comm::even_places(6, 2))[5].ulysses_degree,
            2);
  EXPECT_EQ(usp_positions(0, Placement::ring_inner, comm::even_places(6, 3))[5].ring_degree, 2);
}

TEST(UspPositionTest, RefusesDegreesThatDoNotFit) {
  const auto refusal = [](int degree, const std::vector<comm::Place>& places) -> std::string {
    try {
      usp_positions(degree, Placement::ulysses_inner, places);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(4, places({0, 0, 0, 0, 0, 0})), HasSubstr("legal are 1, 2, 3, 6"));
  EXPECT_THAT(refusal(-1, places({0, 0})), HasSubstr("legal are 1, 2"));
  EXPECT_THAT(refusal(0, places({0, 0, 1})), HasSubstr("ulysses_degree must be given"));
}

}  // namespace
}  // namespace ringspan::attention
