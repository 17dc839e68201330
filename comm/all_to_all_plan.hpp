// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/batch.hpp"

namespace ringspan::comm {

/// Copies inside one rank's memory.
struct Copy {
  Slice to, from;
};

/// A part of an all-to-all: pack, post `outer`; when that has arrived, post `inner` and unpack.
struct AllToAllStage {
  std::vector<Copy> pack;
  Batch outer;
  Batch inner;
  std::vector<Copy> unpack;
};

/// An all-to-all as data. All ranks of the group have equally many stages.
struct AllToAllPlan {
  Batch own;                          // among the ranks that need no stage in between
  std::vector<Copy> self;             // what this rank has for itself
  std::vector<AllToAllStage> stages;  // independent of each other
};

AllToAllPlan plan_direct(const Communicator& comm, std::span<const Slice> send,
                         std::span<const Slice> recv);

/// Collective: ranks learn the sizes of what they are to pass on.
AllToAllPlan plan_hierarchical(const Communicator& comm, std::span<const Slice> send,
                               std::span<const Slice> recv);

}  // namespace ringspan::comm
