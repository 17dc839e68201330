// SPDX-License-Identifier: Apache-2.0
#include "bench/run/exchange_groups.hpp"

#include <numeric>

#include "attention/schedules/usp_position.hpp"
#include "bench/run/rank_run.hpp"

namespace ringspan::bench {

std::vector<std::vector<int>> exchange_groups(const Point& point,
                                              const std::vector<comm::Place>& places) {
  std::vector<std::vector<int>> groups(1, std::vector<int>(places.size()));
  if (point.schedule != "usp") {
    std::iota(groups[0].begin(), groups[0].end(), 0);
    return groups;
  }
  const attention::ScheduleOptions how = schedule_options(point);
  const auto positions = attention::usp_positions(how.ulysses_degree, how.placement, places);
  const auto degree = static_cast<std::size_t>(positions.front().ulysses_degree);
  groups.assign(places.size() / degree, std::vector<int>(degree));
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const attention::UspPosition& position = positions[rank];
    groups[static_cast<std::size_t>(position.ring_rank)]
          [static_cast<std::size_t>(position.ulysses_rank)] = static_cast<int>(rank);
  }
  return groups;
}

}  // namespace ringspan::bench
