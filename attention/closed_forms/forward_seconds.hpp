// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "attention/kernels/families.hpp"
#include "attention/schedule.hpp"
#include "comm/cluster.hpp"

namespace ringspan::attention {

/// Seconds of a kernel of so many seconds, while messages slow it down to 1 / slowdown in [0,
/// message_seconds): all of it, or what is left of it when they have arrived.
double slowed_seconds(double kernel_seconds, double message_seconds, double slowdown);

/// A ring's passes of work, from its steps alone: in step s rank r computes for work[r][s] seconds
/// and sends to the next rank what takes messages[r][s] seconds, or nothing if that is 0. A message
/// starts when both ranks have ended their steps before; a step ends with all of its three.
double ring_seconds(const std::vector<std::vector<double>>& work,
                    const std::vector<std::vector<double>>& messages, double slowdown);

/// Time of a forward pass on ranks of one node whose GPUs are on one switch: there no two messages
/// share more than a port, and nothing has to be simulated. `schedule` is ring, striped, zigzag, or
/// ulysses with whole groups of heads for every rank. What a host takes to issue is not in it.
double forward_seconds(std::string_view schedule, const Problem& problem,
                       const comm::Cluster& cluster, const ModelledLibrary& library, int ranks);

}  // namespace ringspan::attention
