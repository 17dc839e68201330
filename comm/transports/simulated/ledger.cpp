// SPDX-License-Identifier: Apache-2.0
// What must agree where two halves of a message meet. Size and name are always compared; the debug
// ledger adds their places in the order of all messages.
#include "comm/transports/simulated/engine.hpp"
#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm::simulated {

std::int64_t Engine::number(bool sending, int peer) {
  if (!simulation_->options().debug.ledger) return 0;
  std::vector<std::int64_t>& numbers = sending ? sent_ : expected_;
  numbers.resize(simulation_->size());
  return numbers[peer]++;
}

void Engine::require_agreement(const Transfer& transfer) {
  const diagnosis::Half sender = transfer.sender.half(), receiver = transfer.receiver.half();
  if (const auto error = diagnosis::disagreement(sender, receiver)) fail(*error);
  if (!simulation_->options().debug.ledger) return;
  const auto expecting = [&] { return transfer.receiver.engine->expecting(transfer.sender); };
  if (const auto error = diagnosis::disorder(sender, receiver, expecting)) fail(*error);
}

// This rank's half of the sender's number, in whatever group.
std::optional<diagnosis::Half> Engine::expecting(const End& sender) const {
  for (const auto& [key, channel] : simulation_->channels()) {
    const auto lane = channel->lanes.find(Channel::pair(sender.title->rank, rank_));
    if (lane == channel->lanes.end()) continue;
    for (const Transfer* transfer = lane->second.first.get(); transfer;
         transfer = transfer->next.get())
      if (transfer->receiver.engine && transfer->receiver.number == sender.number)
        return transfer->receiver.half();
  }
  return {};
}

}  // namespace ringspan::comm::simulated
