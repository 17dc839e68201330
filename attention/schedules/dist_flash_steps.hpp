// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// What one rank computes at step t, and for and with whom: it has to do with the rank t behind it
/// alone. Blocks come from there, and what is worked out for it goes back; so others, t ahead, work
/// on this rank's.
struct DistFlashStep {
  int behind = 0, ahead = 0;  // of which ranks; at step 0 this one
  std::int64_t tokens = 0;    // of `behind`
  std::vector<Tile> own;      // what this rank's queries see of the keys of `behind`
  std::vector<Tile> helped;   // what the queries of `behind` see of this rank's keys
  bool lends_keys = false;    // `ahead` sees some of this rank's keys
  bool is_helped = false;     // `ahead` computes what this rank's queries see of its keys

  bool idle() const { return own.empty() && helped.empty(); }
};

/// DISTFLASHATTN's balanced schedule, for any mask: of the two pairs of blocks that ranks p - t and
/// p make, rank p computes both at step t, its own queries' and, as a helper, those of p - t; at
/// t = P/2, where each is behind the other, its own queries' alone. Pairs without anything visible
/// are left out. Under a causal mask on consecutive tokens one of the two always is: a rank p >= t
/// attends to an earlier one, and the others help those at the end. P/2 + 1 steps, of which P/2
/// slots are idle if P is even, none if it is odd.
std::vector<DistFlashStep> dist_flash_steps(const Problem& problem, LayoutKind layout, int ranks,
                                            int rank);

}  // namespace ringspan::attention
