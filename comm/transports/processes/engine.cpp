// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/devices/host.hpp"

namespace ringspan::comm::processes {
namespace {

// Bytes that each part but the last carries of a message of `parts` parts: no two numbers of parts
// begin alike, so that a wrong size shows in the first part or in the last.
std::int64_t part_bytes(std::int64_t parts) {
  constexpr std::int64_t kPage = 4096;
  return parts == 1 ? Wire::kLargestMessage : Wire::kLargestMessage - kPage * parts;
}

std::int64_t parts_of(std::int64_t bytes) {
  std::int64_t parts = 1;
  while (parts * part_bytes(parts) < bytes) ++parts;
  return parts;
}

}  // namespace

Engine::Engine(std::shared_ptr<Wire> wire, const LaunchOptions& options,
               std::shared_ptr<const World> world, bool crowded)
    : wire_(std::move(wire)),
      options_(options),
      world_(std::move(world)),
      rank_(wire_->rank()),
      crowded_(crowded),
      device_(make_host_device(options.debug.poison)),
      peers_(*wire_, options.ranks),
      recorder_(rank_),
      sent_(options.ranks),
      awaited_(options.ranks),
      random_(options.debug.seed + rank_) {
  device_->on_poll([this] { poll(); });
}

// Memory that the network still holds is never freed: it might be written when it is someone
// else's.
Engine::~Engine() {
  device_->on_poll({});
  for (auto& operation : abandoned_) {
    if (let_go(*operation)) continue;
    for (Direction* direction : {&operation->sends, &operation->recvs}) direction->parts.clear();
    static_cast<void>(new std::shared_ptr<Operation>(std::move(operation)));
  }
}

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
  active_.push_back(operation);
  start(*operation);
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

void Engine::start(Operation& operation) {
  if (options_.debug.ledger) {
    add_headers(operation.recvs);
    add_headers(operation.sends);
  }
  try {
    for (Message& message : operation.recvs.messages) start_receive(operation, message);
    for (Message& message : operation.sends.messages) start_send(operation, message);
  } catch (const Error& error) {
    abandon(operation, true);  // the wire has some of it
    fail_with(error);
  }
}

void Engine::add_headers(Direction& direction) {
  direction.headers.resize(direction.messages.size());
  for (std::size_t i = 0; i < direction.messages.size(); ++i)
    direction.messages[i].header = &direction.headers[i];
}

void Engine::start_receive(Operation& operation, Message& message) {
  if (!message.slice.contiguous()) message.staging = staging_.take(message.slice.bytes());
  cut(operation.recvs, message, [&](std::span<std::byte> memory) {
    return wire_->receive(message.peer, operation.channel->id, memory);
  });
}

void Engine::start_send(Operation& operation, Message& message) {
  const std::int64_t bytes = message.slice.bytes();
  if (!message.slice.contiguous()) {
    message.staging = staging_.take(bytes);
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
  const std::int64_t bytes = message.slice.bytes(), largest = part_bytes(parts_of(bytes));
  std::int64_t begin = 0;
  do {
    add(message.memory() + begin, std::min(largest, bytes - begin), false);
    begin += largest;
  } while (begin < bytes);
}

void Engine::wait(Operation& operation) {
  delay_for_debugging();
  block(operation);
  finish(operation);
}

bool Engine::test(Operation& operation, Patience& patience) {
  progress();
  if (operation.done()) {
    finish(operation);
    return true;
  }
  require_working();
  require_hope(operation, patience);
  return false;
}

void Engine::finish(const Operation& operation) {
  peers_.set_waiting({});
  peers_.beat();
  recorder_.done(operation.record);
}

void Engine::poll() {
  peers_.set_waiting({});
  peers_.beat();
  progress();
  require_working();
}

// Also after a failure elsewhere: what has arrived is delivered.
void Engine::progress() {
  wire_->progress();
  peers_.progress();
  if (closed_) return;
  for (const auto& operation : active_) advance(*operation, false);
  retire();
}

// Keeps a few of those that have ended, to be used again.
void Engine::retire() {
  constexpr std::size_t kKept = 16;
  for (std::size_t i = 0; i < active_.size();) {
    if (!active_[i]->done()) {
      ++i;
      continue;
    }
    if (ended_.size() < kKept) ended_.push_back(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Unless `thoroughly`, looks no further than the first part that is not done: an operation is as
// late as its last part, and every look costs a call of the network library.
void Engine::advance(Operation& operation, bool thoroughly) {
  for (Direction* direction : {&operation.recvs, &operation.sends}) {
    for (std::size_t i = direction->first; i < direction->parts.size(); ++i) {
      Part& part = direction->parts[i];
      if (part.transfer && part.transfer->done()) complete(operation, *direction, part);
      if (part.transfer && !thoroughly) break;
    }
    while (!direction->done() && !direction->parts[direction->first].transfer) ++direction->first;
  }
}

void Engine::complete(Operation& operation, const Direction& direction, Part& part) {
  Message& message = *part.message;
  const bool received = &direction == &operation.recvs;
  if (received) require_agreement(operation, part);
  part.transfer.reset();
  if (--message.missing > 0) return;
  if (received) deliver(operation, message);
  message.slice.buffer = {};
  message.staging = {};
}

void Engine::deliver(const Operation& operation, const Message& message) {
  delay_for_debugging();
  const std::int64_t bytes = message.slice.bytes();
  if (message.packed()) copy_slice(message.slice, slice(message.staging, 0, bytes));
  if (message.peer != rank_) traffic_.bytes_copied += bytes;
  peers_.heard_of(*operation.channel, message.peer, operation.sequence);
  peers_.beat();
}

std::shared_ptr<Channel> Engine::join(std::int64_t id, std::vector<int> members, int own) {
  if (id >= wire_->tags())
    throw Error(ErrorKind::not_available,
                concat("group: this launch has used up the ", wire_->tags(), " groups that its ",
                       "transport can tell apart; groups are made once and kept"));
  next_channel_ = std::max(next_channel_, id + 1);
  auto channel = std::make_shared<Channel>(id, std::move(members), own);
  peers_.join(channel);
  return channel;
}

void Engine::fail_with(const Error& cause) {
  peers_.fail({cause, cause});
  peers_.progress();  // tells the others
  require_working();
  throw cause;
}

void Engine::require_working() {
  if (dropped_) peers_.fail({*dropped_, *dropped_});
  peers_.failure().rethrow(rank_);
}

void Engine::abandon(Operation& operation, bool unwinding) {
  const auto own = std::find_if(active_.begin(), active_.end(),
                                [&](const auto& active) { return active.get() == &operation; });
  if (operation.done() || own == active_.end()) return;
  closed_ = true;
  if (!let_go(operation)) abandoned_.push_back(*own);
  active_.erase(own);
  if (!dropped_) {
    dropped_.emplace(ErrorKind::peer_failed,
                     concat("rank ", rank_, " dropped the pending request of operation ",
                            operation.sequence, ", ", operation.name),
                     Error::Where{rank_, rank_, operation.name, operation.sequence});
  }
  if (!unwinding) peers_.fail({*dropped_, *dropped_});
}

// True if the wire has nothing of it any more.
bool Engine::let_go(Operation& operation) {
  bool all = true;
  for (Direction* direction : {&operation.sends, &operation.recvs}) {
    for (Part& part : direction->parts) {
      if (!part.transfer) continue;
      if (part.transfer->cancel()) {
        part.transfer.reset();
      } else {
        all = false;
      }
    }
  }
  return all;
}

void Engine::delay_for_debugging() {
  const double longest = options_.debug.max_delay;
  if (longest <= 0) return;
  std::uniform_real_distribution<double> seconds(0, longest);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random_)));
}

}  // namespace ringspan::comm::processes
