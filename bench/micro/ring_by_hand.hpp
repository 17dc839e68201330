// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "comm/communicator.hpp"

namespace ringspan::bench {

/// One hop of a ring, each time it is called: what RingExchange does, against a vendor's library
/// alone. Between two buffers in turns, as there. `comm` is used to set it up. Collective; so is
/// letting it go.
using HopByHand = std::function<void()>;
using RingByHand = HopByHand (*)(const comm::Communicator& comm, std::int64_t bytes);

HopByHand mpi_ring_by_hand(const comm::Communicator& comm, std::int64_t bytes);
HopByHand ucx_ring_by_hand(const comm::Communicator& comm, std::int64_t bytes);

}  // namespace ringspan::bench
