// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// [rank].
inline std::vector<comm::Place> places(const comm::Communicator& comm) {
  std::vector<comm::Place> places;
  for (int rank = 0; rank < comm.size(); ++rank) places.push_back(comm.place(rank));
  return places;
}

/// Where a rank stands in the two dimensions of usp.
struct UspPosition {
  int ulysses_degree = 1, ulysses_rank = 0;
  int ring_degree = 1, ring_rank = 0;
};

/// [rank]. The inner dimension stays within NUMA domains as far as can be, else within nodes,
/// whatever the order and number of ranks on each; where all of that is even and in order, its
/// ranks are neighbours. A degree of 0 is the number of ranks on a node. Throws invalid_argument,
/// listing the legal degrees, unless the degree divides the ranks.
std::vector<UspPosition> usp_positions(int ulysses_degree, Placement placement,
                                       std::span<const comm::Place> places);

}  // namespace ringspan::attention
