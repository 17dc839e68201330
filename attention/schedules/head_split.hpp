// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attention/schedule.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::attention {

/// The heads that one rank of a head-sharded attention works on: some query heads and the KV heads
/// that they read.
struct HeadShare {
  Part heads, kv_heads;
};

/// Heads cut into `ranks` shares by KV group, so that each share is attention with whole groups of
/// equal size. With at least as many KV heads as ranks, these are cut near-evenly. With fewer, each
/// KV head has copies on neighbouring ranks (KV head of ranks 0..3 for two: 0, 0, 1, 1), which cut
/// its query heads near-evenly. Throws invalid_argument with the legal numbers of ranks if some
/// rank would be left without heads.
std::vector<HeadShare> split_heads(const Shape& shape, int ranks);

/// The problem that the share is.
Problem with_heads(Problem problem, const HeadShare& share);

/// A part of a rank's share that is exchanged on its own. Keys and values travel with the first
/// group that reads them, their gradients with the last.
struct HeadGroup {
  HeadShare share;
  int first_reader = 0, last_reader = 0;  // groups, of these KV heads
};

/// A share cut into groups as heads are cut into shares. There may be at most as many as heads.
std::vector<HeadGroup> split_into_groups(const Shape& shape, const HeadShare& share, int groups);

/// True if ranks hold copies of KV heads, so that their gradients have to be summed.
inline bool replicates_kv(const Shape& shape, int ranks) { return shape.kv_heads < ranks; }

}  // namespace ringspan::attention
