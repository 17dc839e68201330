// SPDX-License-Identifier: Apache-2.0
// What must agree where two halves of a message meet. The size always does; name and order are
// compared where the debug ledger has a header precede each message.
#include "comm/transports/processes/engine.hpp"

namespace ringspan::comm::processes {
namespace {

using diagnosis::Half;

// Names are compared as far as a header holds them.
Half receiving_half(int rank, const Operation& operation, const Message& message) {
  return {rank, operation.name.substr(0, sizeof(Header::operation) - 1), operation.sequence,
          message.slice.bytes(), message.number};
}

}  // namespace

void Engine::require_agreement(const Operation& operation, const Part& part) {
  const Message& message = *part.message;
  const std::int64_t came = part.transfer->received();
  if (part.header && came == part.bytes) return require_header(operation, message);
  if (came == part.bytes) return;
  const bool in_one = part.bytes == message.slice.bytes();
  fail_with(Error(ErrorKind::peer_failed,
                  concat("rank ", message.peer, " sends ",
                         in_one ? concat(came, " bytes") : "another number of bytes",
                         in_one && came > part.bytes ? " or more" : "", ", where rank ", rank_,
                         " expects ", message.slice.bytes(), " bytes in operation ",
                         operation.sequence, ", ", operation.name),
                  {rank_, message.peer, operation.name, operation.sequence}));
}

void Engine::require_header(const Operation& operation, const Message& message) {
  const Header& header = *message.header;
  const Half sender{message.peer, header.operation, header.sequence, header.bytes, header.number};
  const Half receiver = receiving_half(rank_, operation, message);
  if (const auto error = disagreement(sender, receiver)) fail_with(*error);
  const auto expecting = [&] { return this->expecting(message.peer, header.number); };
  if (const auto error = disorder(sender, receiver, expecting)) fail_with(*error);
}

// This rank's half of message `number` of all that `peer` sends it.
std::optional<Half> Engine::expecting(int peer, std::int64_t number) const {
  for (const auto& operation : active_)
    for (const Message& message : operation->recvs.messages)
      if (message.missing > 0 && message.peer == peer && message.number == number)
        return receiving_half(rank_, *operation, message);
  return {};
}

}  // namespace ringspan::comm::processes
