// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/cluster.hpp"

namespace ringspan::bench {

/// `size` ranks of a cluster, each `stride` after the one before; all ranks are in such a group and
/// all groups do the same at once.
struct RankGroup {
  std::int64_t size = 1, stride = 1;
};

/// What one collective over rings costs each rank.
struct CollectiveCost {
  double seconds = 0;
  double bytes_in_node = 0, bytes_between_nodes = 0;  // that a GPU sends
  double kernel_slowdown = 1;                         // meanwhile
};

/// An all-gather or a reduce-scatter of `bytes` in all, in (size - 1) steps of bytes / size over
/// the slowest link of the ring. An all-reduce is two of them. A collective starts once and then
/// passes one link after another; rings between nodes use all adapters that their ranks are near
/// to.
CollectiveCost gather_cost(const comm::Cluster& cluster, const RankGroup& group, double bytes);

/// A message of `bytes` from every rank to the next of its group, where that is farthest away.
CollectiveCost message_cost(const comm::Cluster& cluster, const RankGroup& group, double bytes);

/// Time of kernels of so many seconds that run beside messages: messages slow them down to
/// 1 / slowdown meanwhile, and the two end when the longer ends.
double overlapped_seconds(double kernel_seconds, double message_seconds, double slowdown);

}  // namespace ringspan::bench
