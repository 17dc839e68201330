// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bench/run/run_mode.hpp"
#include "bench/run/step_clock.hpp"
#include "comm/transport.hpp"

namespace ringspan::bench {

/// `inner` with its messages left whole, emptied or left out, as `mode` says at the time of each
/// post; `clock` is told of every post and wait. Groups made from it are filtered alike. Where
/// messages do not carry bytes, received data is stale, but every buffer that a schedule expects is
/// there. Both references outlive it.
std::shared_ptr<comm::Transport> make_filter_transport(std::shared_ptr<comm::Transport> inner,
                                                       const RunMode& mode, StepClock& clock);

}  // namespace ringspan::bench
