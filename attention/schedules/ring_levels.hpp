// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "attention/schedule.hpp"
#include "attention/schedules/ring_order.hpp"
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

/// Inner rings of consecutive ranks in this order and an outer one; one ring if one holds all.
/// Collective.
RingLevels two_rings(const comm::Communicator& comm, const RingOrder& order);

/// Ring attention around them.
std::unique_ptr<Schedule> make_ring(const RingLevels& levels, Kernels& kernels, LayoutKind layout,
                                    BackwardForm backward);

}  // namespace ringspan::attention
