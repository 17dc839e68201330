// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "attention/kernels/families.hpp"
#include "attention/schedule.hpp"
#include "comm/cluster.hpp"

namespace ringspan::attention {

/// Seconds of a kernel of so many seconds, while messages slow it down to 1 / slowdown in [0,
/// message_seconds): all of it, or what is left of it when they have arrived.
double slowed_seconds(double kernel_seconds, double message_seconds, double slowdown);

/// Time of a forward pass on ranks of one node whose GPUs are on one switch: there no two messages
/// share more than a port, and nothing has to be simulated. `schedule` is ring, striped, zigzag,
/// ulysses or usp, the latter two with whole groups of heads, and equally many tokens, for every
/// rank. What a host takes to issue is not in it.
double forward_seconds(std::string_view schedule, const Problem& problem,
                       const comm::Cluster& cluster, const ModelledLibrary& library, int ranks,
                       const ScheduleOptions& options = {});

}  // namespace ringspan::attention
