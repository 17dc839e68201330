// SPDX-License-Identifier: Apache-2.0
// What must agree where two halves of a message meet. Size and name are always compared. The debug
// ledger adds that both belong to the same operation of their group and that both ranks count the
// same number of messages between them over all groups: on other transports a different order
// would be a deadlock.
#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm::threads {
namespace {

std::string title(const Operation& operation) {
  return concat("operation ", operation.sequence, ", ", operation.name);
}

Error disagreement(const Letter& arrived, const Letter& expected, const std::string& message) {
  const Operation &sender = *arrived.operation, &receiver = *expected.operation;
  return Error(ErrorKind::peer_failed, message,
               {receiver.rank, sender.rank, receiver.name, receiver.sequence});
}

}  // namespace

void Engine::require_agreement(const Letter& arrived, const Letter& expected) {
  const Operation &sender = *arrived.operation, &receiver = *expected.operation;
  const Slice &sent = arrived.sent().slice, &awaited = expected.expected().slice;
  if (sent.bytes() != awaited.bytes() || sender.name != receiver.name) {
    fail(disagreement(arrived, expected,
                      concat("rank ", sender.rank, " sends ", sent.bytes(), " bytes in ",
                             title(sender), ", where rank ", receiver.rank, " expects ",
                             awaited.bytes(), " bytes in ", title(receiver))));
  }
  const bool lent = sent.offset == 0 && sent.rows == 1;
  if (!awaited.buffer && awaited.bytes() > 0 && !lent) {
    fail(disagreement(arrived, expected,
                      concat("rank ", receiver.rank, " expects the buffer of rank ", sender.rank,
                             " in ", title(receiver), " and has none to fill, but what is sent ",
                             "is not one row from the beginning of its buffer")));
  }
}

void Engine::require_order(const Letter& arrived, const Letter& expected) {
  const Operation &sender = *arrived.operation, &receiver = *expected.operation;
  const std::int64_t number = arrived.sent().number;
  if (number != expected.expected().number) {
    const Operation* other = expecting(sender.rank, number);
    fail(disagreement(
        arrived, expected,
        concat("ledger: rank ", sender.rank, " and rank ", receiver.rank,
               " post in different orders: message ", number,
               " of the one to the other belongs to ", title(sender), ", at the sender, and to ",
               other ? title(*other) : "no operation yet", ", at the receiver")));
  }
  if (sender.sequence != receiver.sequence) {
    fail(disagreement(arrived, expected,
                      concat("ledger: what rank ", sender.rank, " sends in ", title(sender),
                             ", rank ", receiver.rank, " expects in ", title(receiver),
                             "; it must be the same operation of their group")));
  }
}

// The operation in which this rank expects message `number` of all that `peer` sends it.
const Operation* Engine::expecting(int peer, std::int64_t number) const {
  for (const auto& [key, lane] : lanes_)
    for (const Letter& letter : lane.expected)
      if (key.second == peer && letter.expected().number == number) return letter.operation.get();
  return nullptr;
}

}  // namespace ringspan::comm::threads
