// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/schedule.hpp"

namespace ringspan::attention {

/// Forward a rank sends the keys and values that other ranks see of its shard, backward the
/// gradients of those that it sees of theirs (without d_sinks). The mask must have a window.
Traffic halo_forward_traffic(const Problem& problem, const Group& group);
Traffic halo_backward_traffic(const Problem& problem, const Group& group);

}  // namespace ringspan::attention
