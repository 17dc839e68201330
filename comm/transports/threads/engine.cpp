// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/threads/engine.hpp"

#include <chrono>
#include <thread>

#include "comm/devices/host.hpp"

namespace ringspan::comm::threads {

Engine::Engine(std::shared_ptr<Hub> hub, int rank)
    : hub_(std::move(hub)),
      rank_(rank),
      device_(make_host_device(hub_->options().debug.poison)),
      recorder_(rank),
      sent_(hub_->size()),
      awaited_(hub_->size()),
      random_(hub_->options().debug.seed + rank) {
  device_->on_poll([this] { poll(); });
}

Engine::~Engine() { device_->on_poll({}); }

void Engine::post(const std::shared_ptr<Operation>& operation) {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  record(*operation);
  for (std::size_t i = 0; i < operation->recvs.size(); ++i) {
    Incoming& message = operation->recvs[i];
    message.number = awaited_[message.from]++;
    Lane& from = lane(*operation->channel, message.from);
    from.expected.push_back({operation, i});
    ready_.push_back(&from);
  }
  for (std::size_t i = 0; i < operation->sends.size(); ++i) send({operation, i});
  if (operation->done()) recorder_.done(operation->record);
}

void Engine::record(Operation& operation) {
  operation.record = recorder_.post({operation.channel->id, operation.sequence, operation.name});
  for (const Outgoing& message : operation.sends)
    recorder_.sends(message.to, message.slice.bytes());
  for (const Incoming& message : operation.recvs)
    recorder_.receives(message.from, message.slice.bytes());
}

void Engine::send(const Letter& letter) {
  Outgoing& message = letter.sent();
  message.number = sent_[message.to]++;
  if (message.to != rank_) {
    const std::vector<Place>& places = hub_->world()->places;
    const bool leaves_node = places[message.to].node != places[rank_].node;
    traffic_.messages_sent += 1;
    traffic_.bytes_sent += message.slice.bytes();
    traffic_.inter_node_bytes_sent += leaves_node ? message.slice.bytes() : 0;
  }
  hub_->sent(message.slice.buffer, message.to);
  hub_->mailbox(message.to).push(letter);  // from here on the slice may be the receiver's
}

void Engine::poll() {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  progress();
  require_working();
}

// Also after a failure elsewhere: what has arrived is delivered.
void Engine::progress() {
  if (closed_) return;
  for (Letter& letter : hub_->mailbox(rank_).take()) {
    Lane& from = lane(*letter.operation->channel, letter.operation->rank);
    from.arrived.push_back(std::move(letter));
    ready_.push_back(&from);
  }
  for (Lane* lane : ready_) match(*lane);
  ready_.clear();
}

void Engine::match(Lane& lane) {
  while (!lane.arrived.empty() && !lane.expected.empty()) {
    if (!receive(lane.arrived.front(), lane.expected.front())) return;
    lane.arrived.pop_front();
    lane.expected.pop_front();
  }
}

// False if the sender has withdrawn the message; its failure is then on the way.
bool Engine::receive(const Letter& arrived, const Letter& expected) {
  delay_for_debugging();
  require_agreement(arrived, expected);
  if (hub_->options().debug.ledger) require_order(arrived, expected);

  Operation &sender = *arrived.operation, &receiver = *expected.operation;
  if (!arrived.sent().take()) return false;
  move_bytes(arrived, expected);
  arrived.sent().state = Outgoing::State::received;
  sender.unreceived -= 1;
  hub_->mailbox(sender.rank).ring();
  expected.expected().received = true;
  receiver.expected -= 1;
  hub_->beat(rank_);
  return true;
}

void Engine::move_bytes(const Letter& arrived, const Letter& expected) {
  Slice& from = arrived.sent().slice;
  Incoming& to = expected.expected();
  if (to.rebind && hub_->world()->lends && from.offset == 0 && from.rows == 1) {
    *to.rebind = std::move(from.buffer);
    if (to.rebind->sole_owner()) hub_->reclaimed(*to.rebind);  // it is given away
  } else {
    copy_slice(to.slice, from);
    if (to.from != rank_) traffic_.bytes_copied += from.bytes();
  }
  // A peer may hold the operation for a moment longer than its request; not so the buffers.
  from.buffer = {};
  to.slice.buffer = {};
}

void Engine::fail(const Error& cause) {
  hub_->fail(cause);
  require_working();
  throw cause;
}

void Engine::require_working() {
  if (dropped_) hub_->fail(*dropped_);
  hub_->failure().rethrow(rank_);
}

void Engine::abandon(Operation& operation, bool unwinding) {
  if (operation.done()) return;
  closed_ = true;
  for (Outgoing& message : operation.sends) message.withdraw();
  if (!dropped_) {
    dropped_.emplace(ErrorKind::peer_failed,
                     concat("rank ", rank_, " dropped the pending request of operation ",
                            operation.sequence, ", ", operation.name),
                     Error::Where{rank_, rank_, operation.name, operation.sequence});
  }
  if (!unwinding) hub_->fail(*dropped_);
}

void Engine::delay_for_debugging() {
  const double longest = hub_->options().debug.max_delay;
  if (longest <= 0) return;
  std::uniform_real_distribution<double> seconds(0, longest);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random_)));
}

}  // namespace ringspan::comm::threads
