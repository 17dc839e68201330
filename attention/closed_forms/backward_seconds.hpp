// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "attention/kernels/families.hpp"
#include "attention/schedule.hpp"
#include "comm/cluster.hpp"

namespace ringspan::attention {

/// Time of a backward pass, as forward_seconds() and where that knows one: of ring, striped and
/// zigzag, in 16 bits. The gradients' messages are under way together with those of keys and
/// values; throws invalid_argument for a switch whose ports they would share, but for what their
/// channels leave free.
double backward_seconds(std::string_view schedule, const Problem& problem,
                        const comm::Cluster& cluster, const ModelledLibrary& library, int ranks);

}  // namespace ringspan::attention
