// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// Measures what messages cost in this group in about so many seconds at most, while all of its
/// ranks send: each to the next rank of its node, then to the rank of equal index on the next node,
/// and several at once to different ones, as an all-to-all does, for up to a second; then, on
/// several nodes of several ranks, both all-to-alls, until it is clear at every size which is the
/// faster. Sizes are up to 4 MiB per pair, less where it would take too long or a rank would have
/// to send more than 64 MiB. Collective; all ranks get the same. Links that the group does not have
/// cost nothing.
MessageCosts probe(const Communicator& comm, double seconds);

/// An exchange with one peer, timed: `messages` of `bytes` together, each way.
struct TimedExchange {
  int messages = 1;
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// The costs that explain these times with the least relative errors: a line through those of one
/// message, and what more short messages took beyond it; of longer ones, what they took beyond the
/// same bytes in one message. None is negative.
LinkCosts fit(std::span<const TimedExchange> exchanges);

}  // namespace ringspan::comm
