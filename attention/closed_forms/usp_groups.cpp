// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/usp_groups.hpp"

#include <cstddef>

#include "attention/schedules/usp_position.hpp"

namespace ringspan::attention {

UspGroups usp_groups(const ScheduleOptions& options, const comm::World& world, int rank) {
  const std::vector<UspPosition> positions =
      usp_positions(options.ulysses_degree, options.placement, world.places);
  const UspPosition& own = positions[rank];
  UspGroups groups{{std::vector<int>(own.ulysses_degree), own.ulysses_rank},
                   std::vector<comm::Place>(own.ring_degree),
                   own.ring_rank};
  for (std::size_t other = 0; other < positions.size(); ++other) {
    const UspPosition& at = positions[other];
    const comm::Place& place = world.places[other];
    if (at.ring_rank == own.ring_rank) groups.ulysses.nodes[at.ulysses_rank] = place.node;
    if (at.ulysses_rank == own.ulysses_rank) groups.ring[at.ring_rank] = place;
  }
  groups.ulysses.costs = world.costs_among(groups.ulysses.nodes);
  return groups;
}

}  // namespace ringspan::attention
