// SPDX-License-Identifier: Apache-2.0
// How an operation is cut into what the wire carries, and started: receives first.
#include <algorithm>
#include <utility>

#include "comm/devices/host.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/processes/engine.hpp"
#include "comm/transports/processes/parts.hpp"

namespace ringspan::comm::processes {

std::shared_ptr<Operation> Engine::post(const std::shared_ptr<Channel>& channel,
                                        std::string_view name, std::span<Send> sends,
                                        std::span<Recv> recvs, bool counted) {
  peers_.set_waiting({});
  peers_.beat();
  const std::shared_ptr<Operation> operation = blank_operation();
  operation->channel = channel;
  operation->sequence = channel->posted++;
  operation->name = name;
  for (Recv& recv : recvs) {
    const int peer = channel->members[recv.from];
    operation->recvs.messages.push_back({peer, std::move(recv.slice), {}, awaited_[peer]++});
  }
  for (Send& send : sends) {
    const int peer = channel->members[send.to];
    operation->sends.messages.push_back({peer, std::move(send.slice), {}, sent_[peer]++});
    if (counted) count(operation->sends.messages.back());
  }
  record(*operation);
  operation->posted_at = diagnosis::steady_now();
  operation->started = false;
  active_.push_back(operation);
  if (gpu_) prepare(*operation);
  start_queued();
  return operation;
}

// One that has ended, if there is one that nobody holds: its vectors have their memory already.
std::shared_ptr<Operation> Engine::blank_operation() {
  const auto spare = std::find_if(ended_.begin(), ended_.end(),
                                  [](const auto& operation) { return operation.use_count() == 1; });
  if (spare == ended_.end()) return std::make_shared<Operation>();
  std::shared_ptr<Operation> operation = std::move(*spare);
  ended_.erase(spare);
  operation->sends.clear();
  operation->recvs.clear();
  return operation;
}

void Engine::count(const Message& message) {
  if (message.peer == rank_) return;
  const bool leaves_node = world_->places[message.peer].node != world_->places[rank_].node;
  traffic_.messages_sent += 1;
  traffic_.bytes_sent += message.slice.bytes();
  traffic_.inter_node_bytes_sent += leaves_node ? message.slice.bytes() : 0;
}

void Engine::record(Operation& operation) {
  operation.record = recorder_.post({operation.channel->id, operation.sequence, operation.name});
  for (const Message& message : operation.sends.messages)
    recorder_.sends(message.peer, message.slice.bytes());
  for (const Message& message : operation.recvs.messages)
    recorder_.receives(message.peer, message.slice.bytes());
}

// Where the wire does not take what is sent as it is, it is packed behind what has written it.
void Engine::prepare(Operation& operation) {
  try {
    for (Message& message : operation.sends.messages) {
      if (direct(message.slice)) continue;
      message.staging = gpu_->take(message.slice.bytes());
      gpu_->pack(message.staging, message.slice);
    }
    operation.queued = gpu_->queued();
  } catch (const Error& error) {
    give_up(operation, error);
  }
}

/// Whether what was queued on the GPU before it has run.
bool Engine::ready(Operation& operation) {
  if (!operation.queued) return true;
  try {
    if (operation.queued->done()) return true;
  } catch (const Error& error) {
    give_up(operation, error);
  }
  const std::int64_t waited = diagnosis::steady_now() - operation.posted_at;
  if (1e-9 * static_cast<double>(waited) > options_.deadline)
    fail_with({ErrorKind::timeout,
               concat("rank ", rank_, ": what was queued on its GPU before operation ",
                      operation.sequence, ", ", operation.name, ", has not ended in ",
                      options_.deadline, " s"),
               Error::Where{rank_, rank_, operation.name, operation.sequence}});
  return false;
}

// One after the other, for messages match in the order in which the wire gets them.
void Engine::start_queued() {
  for (const auto& operation : active_) {
    if (operation->started) continue;
    if (!ready(*operation)) return;
    operation->started = true;
    operation->queued = {};
    start(*operation);
  }
}

void Engine::start(Operation& operation) {
  if (options_.debug.ledger) {
    add_headers(operation.recvs);
    add_headers(operation.sends);
  }
  try {
    for (Message& message : operation.recvs.messages) start_receive(operation, message);
    for (Message& message : operation.sends.messages) start_send(operation, message);
  } catch (const Error& error) {
    give_up(operation, error);  // the wire has some of it
  }
}

void Engine::add_headers(Direction& direction) {
  direction.headers.resize(direction.messages.size());
  for (std::size_t i = 0; i < direction.messages.size(); ++i)
    direction.messages[i].header = &direction.headers[i];
}

bool Engine::direct(const Slice& slice) const {
  return gpu_ ? gpu_->direct(slice) : slice.contiguous();
}

void Engine::start_receive(Operation& operation, Message& message) {
  if (!direct(message.slice)) message.staging = stage(message.slice.bytes());
  cut(operation.recvs, message, [&](std::span<std::byte> memory) {
    return wire_->receive(message.peer, operation.channel->id, memory);
  });
}

void Engine::start_send(Operation& operation, Message& message) {
  const std::int64_t bytes = message.slice.bytes();
  if (!message.packed() && !direct(message.slice)) {
    message.staging = stage(bytes);
    copy_slice(slice(message.staging, 0, bytes), message.slice);
  }
  if (options_.debug.ledger) {
    *message.header = {bytes, operation.sequence, message.number, {}};
    operation.name.copy(message.header->operation, sizeof(Header::operation) - 1);
  }
  cut(operation.sends, message, [&](std::span<std::byte> memory) {
    return wire_->send(message.peer, operation.channel->id, memory);
  });
}

template <typename Start>
void Engine::cut(Direction& direction, Message& message, Start start) {
  const auto add = [&](std::byte* memory, std::int64_t bytes, bool header) {
    direction.parts.push_back({&message, bytes, header, {}});
    direction.parts.back().transfer = start({memory, static_cast<std::size_t>(bytes)});
    ++message.missing;
  };
  if (options_.debug.ledger)
    add(reinterpret_cast<std::byte*>(message.header), sizeof(Header), true);
  const std::int64_t bytes = message.slice.bytes();
  const Cut cut = cut_of(bytes, wire_->largest_message());
  for (std::int64_t part = 0; part < cut.parts; ++part) {
    const std::int64_t begin = std::min(part * cut.bytes_each, bytes);
    add(message.memory() + begin, std::min(cut.bytes_each, bytes - begin), false);
  }
}

}  // namespace ringspan::comm::processes
