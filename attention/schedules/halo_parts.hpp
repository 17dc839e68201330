// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// Tokens of `owner` that queries of `viewer` see. Shards are contiguous and a window moves with
/// its query, so they are a run at one end of the owner's shard, or all of it.
struct HaloPart {
  int owner = 0, viewer = 0;
  std::int64_t first = 0, tokens = 0;  // in the owner's shard
  std::vector<Tile> tiles = {};        // the viewer's queries against the part
};

/// What one rank sees of others, in order of their ranks, and what others see of it.
struct HaloParts {
  std::vector<HaloPart> seen, shown;
};
HaloParts halo_parts(const Problem& problem, int ranks, int rank);

/// Throws invalid_argument, saying which schedules to use instead, unless the mask bounds how far a
/// query sees on both sides.
void require_window(const Mask& mask);

}  // namespace ringspan::attention
