// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::attention {

/// What goes around a ring: keys and values, to be seen by the queries of all ranks, or the query
/// side, to see the keys of all.
enum class Travelling { kv, q };

/// One rank of a ring that consists of inner rings of `inner_ranks` consecutive ranks; of one, if
/// that is all of them.
struct RingPlace {
  int ranks = 1, rank = 0;
  int inner_ranks = ranks;
};

}  // namespace ringspan::attention
