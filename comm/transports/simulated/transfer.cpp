// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/transfer.hpp"

#include <algorithm>

#include "comm/devices/host.hpp"
#include "comm/transports/simulated/engine.hpp"
#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm::simulated {
namespace {

Slice whole_of(std::vector<std::byte>& bytes) {
  return whole(Buffer(bytes.data(), static_cast<std::int64_t>(bytes.size()), {}));
}

}  // namespace

Platform& Transfer::platform() const { return sender.engine->simulation().platform(); }

void Transfer::take_values() {
  if (!sender.storage) return;
  values_.resize(static_cast<std::size_t>(sender.bytes));
  copy_slice(whole_of(values_), sender.slice);
}

void Transfer::start() {
  if (not_before > platform().now()) {
    platform().at(not_before, Call::to<&Transfer::begin>(this));
  } else {
    begin();
  }
}

// A message to oneself is free.
void Transfer::begin() {
  const Simulation& simulation = sender.engine->simulation();
  begun_ = simulation.now();
  if (sender.engine == receiver.engine) return arrive();
  const Channel& channel = *sender.title->channel;
  const bool between_nodes =
      simulation.place(sender.title->rank).node != simulation.place(receiver.title->rank).node;
  model_ = model_message(simulation.cluster(),
                         {static_cast<int>(channel.members.size()), channel.on_one_node},
                         between_nodes, sender.bytes);
  sender.engine->compute_queue().begin_message(model_.kernel_slowdown);
  receiver.engine->compute_queue().begin_message(model_.kernel_slowdown);
  const double injected = sender.engine->inject(between_nodes, model_.gap_seconds);
  platform().at(injected + model_.latency_seconds, Call::to<&Transfer::move>(this));
}

void Transfer::move() {
  if (model_.wire_bytes == 0) return arrive();
  Simulation& simulation = sender.engine->simulation();
  simulation.flows().start(
      simulation.place(sender.title->rank), simulation.place(receiver.title->rank),
      model_.wire_bytes * sender.engine->message_noise(), model_.most_bytes_per_second, arrived_);
}

void Transfer::arrive() {
  if (sender.engine != receiver.engine) {
    sender.engine->compute_queue().end_message(model_.kernel_slowdown);
    receiver.engine->compute_queue().end_message(model_.kernel_slowdown);
    receiver.engine->received(sender.bytes);
    const Simulation& simulation = sender.engine->simulation();
    simulation.trace({TraceSpan::Kind::message, sender.title->rank, sender.title->name, begun_,
                      simulation.now(), receiver.title->rank, sender.bytes});
  }
  if (!values_.empty() && receiver.storage) copy_slice(receiver.slice, whole_of(values_));
  sender.engine->progressed();
  receiver.engine->progressed();
  end();
}

bool Operation::done_by(double time) const {
  return std::all_of(messages.begin(), messages.end(),
                     [time](const Message& message) { return message.transfer->done_by(time); });
}

std::vector<int> Operation::awaited() const {
  std::vector<int> peers;
  for (const Message& message : messages)
    if (!message.transfer->done()) peers.push_back(message.peer);
  return peers;
}

}  // namespace ringspan::comm::simulated
