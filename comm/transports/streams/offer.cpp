// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/offer.hpp"

#include "comm/transports/diagnosis/ledger.hpp"

namespace ringspan::comm::streams {

Offer offer(const Operation& operation, const Message& message) {
  Offer offer{operation.channel->id, operation.sequence, message.slice.bytes(), {}, {}};
  operation.name.copy(offer.operation, sizeof(offer.operation) - 1);
  return offer;
}

// Messages between two ranks are in one order over all groups, or a GPU would wait for ever.
std::optional<Error> mismatch(int rank, const Message& message, const Offer& mine,
                              const Offer& other, bool strict) {
  const auto half = [&](const Offer& offer, int of) {
    return diagnosis::Half{of, offer.operation, offer.sequence, offer.bytes, message.number};
  };
  const diagnosis::Half own = half(mine, rank), theirs = half(other, message.peer);
  const diagnosis::Half& sender = message.sends ? own : theirs;
  diagnosis::Half receiver = message.sends ? theirs : own;
  if (mine.channel != other.channel) {
    const diagnosis::Half expecting = receiver;
    receiver.number = -1;  // of its own group, it is another
    return diagnosis::disorder(sender, receiver, [&] { return std::optional(expecting); });
  }
  if (auto error = diagnosis::disagreement(sender, receiver)) return error;
  if (!strict) return {};
  return diagnosis::disorder(sender, receiver, [] { return std::optional<diagnosis::Half>(); });
}

}  // namespace ringspan::comm::streams
