// SPDX-License-Identifier: Apache-2.0
// What must agree where two halves of a message meet. Size and name are always compared; the debug
// ledger adds their places in the order of all messages.
#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm::threads {

void Engine::require_agreement(const Letter& arrived, const Letter& expected) {
  const diagnosis::Half sender = arrived.sender(), receiver = expected.receiver();
  if (const auto error = diagnosis::disagreement(sender, receiver)) fail(*error);
  const Slice &sent = arrived.sent().slice, &awaited = expected.expected().slice;
  const bool lent = sent.offset == 0 && sent.rows == 1;
  if (!awaited.buffer && awaited.bytes() > 0 && !lent) {
    fail(Error(ErrorKind::peer_failed,
               concat("rank ", receiver.rank, " expects the buffer of rank ", sender.rank, " in ",
                      title(receiver), " and has none to fill, but what is sent is not one row ",
                      "from the beginning of its buffer"),
               {receiver.rank, sender.rank, receiver.operation, receiver.sequence}));
  }
}

void Engine::require_order(const Letter& arrived, const Letter& expected) {
  const diagnosis::Half sender = arrived.sender();
  const auto expecting = [&] { return this->expecting(sender.rank, sender.number); };
  if (const auto error = diagnosis::disorder(sender, expected.receiver(), expecting)) fail(*error);
}

// This rank's half of message `number` of all that `peer` sends it.
std::optional<diagnosis::Half> Engine::expecting(int peer, std::int64_t number) const {
  for (const auto& [key, lane] : lanes_)
    for (const Letter& letter : lane.expected)
      if (key.second == peer && letter.expected().number == number) return letter.receiver();
  return {};
}

}  // namespace ringspan::comm::threads
