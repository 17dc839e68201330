// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What a rank adds to its device's time to get that of rank 0, seconds: nothing on the same
/// machine; on another one, what a few round trips tell (Cristian 1989), to half the time of the
/// shortest of them. Collective.
double clock_offset(const comm::Communicator& world);

}  // namespace ringspan::bench
