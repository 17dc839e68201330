// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "attention/schedules/ring_steps.hpp"
#include "comm/communicator.hpp"

namespace ringspan::attention {

/// The ranks of a ring in its order, and the rings that blocks go around.
struct RingLevels {
  comm::Communicator all;
  comm::Communicator inner;                 // consecutive ranks of `all`; all of them where
  std::optional<comm::Communicator> outer;  // there is no outer ring

  RingPlace place() const { return {all.size(), all.rank(), inner.size()}; }
};

/// One ring in the order of the ranks.
inline RingLevels one_ring(const comm::Communicator& comm) { return {comm, comm, {}}; }

/// Inner rings of `inner_ring` ranks close to each other, of as many as a node has if that is 0;
/// one ring if that is 1 or all. Collective. Throws invalid_argument, listing the legal numbers,
/// unless it divides the ranks.
RingLevels two_rings(const comm::Communicator& comm, int inner_ring);

}  // namespace ringspan::attention
