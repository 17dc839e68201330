// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/all_to_all_choice.hpp"
#include "comm/batch.hpp"

namespace ringspan::comm {

/// A part of an all-to-all, from the network to the ranks of this node.
struct AllToAllStage {
  std::vector<Copy> pack;    // first; then post
  Batch outer;               // and when that has arrived
  std::vector<Copy> repack;  // then post
  Batch inner;               // and when that has arrived
  std::vector<Copy> unpack;  // with what `outer` brought for this rank
};

/// An all-to-all as data. All ranks of the group have equally many stages.
struct AllToAllPlan {
  Batch own;                          // among ranks that need no stage in between, and
  std::vector<Copy> self;             // what this rank has for itself, unless a stage takes both
  std::vector<AllToAllStage> stages;  // independent of each other
};

AllToAllPlan plan_direct(const Communicator& comm, std::span<const Slice> send,
                         std::span<const Slice> recv);

/// Collective: ranks learn the sizes of what they are to pass on, and check those they expect.
AllToAllPlan plan_hierarchical(const Communicator& comm, std::span<const Slice> send,
                               std::span<const Slice> recv, const AllToAllChoice& choice);

}  // namespace ringspan::comm
