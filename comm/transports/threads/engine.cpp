// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/threads/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/devices/host.hpp"

namespace ringspan::comm::threads {

Engine::Engine(std::shared_ptr<Hub> hub, int rank)
    : hub_(std::move(hub)),
      rank_(rank),
      device_(make_host_device(hub_->options().debug.poison)),
      sent_(hub_->size()),
      awaited_(hub_->size()),
      random_(hub_->options().debug.seed + rank) {
  device_->on_poll([this] { poll(); });
}

Engine::~Engine() { device_->on_poll({}); }

void Engine::post(const std::shared_ptr<Batch>& batch) {
  hub_->beat(rank_);
  for (std::size_t i = 0; i < batch->recvs.size(); ++i) {
    Incoming& message = batch->recvs[i];
    message.number = awaited_[message.from]++;
    Lane& from = lane(*batch->channel, message.from);
    from.expected.push_back({batch, i});
    if (!from.arrived.empty()) ready_.push_back(&from);
  }
  for (std::size_t i = 0; i < batch->sends.size(); ++i) {
    Outgoing& message = batch->sends[i];
    message.number = sent_[message.to]++;
    if (message.to != rank_) {
      const std::vector<Place>& places = hub_->world()->places;
      traffic_.bytes_sent += message.slice.bytes();
      traffic_.messages_sent += 1;
      if (places[message.to].node != places[rank_].node)
        traffic_.inter_node_bytes_sent += message.slice.bytes();
    }
    hub_->mailbox(message.to).push({batch, i});
  }
}

void Engine::poll() {
  hub_->beat(rank_);
  progress();
  throw_if_failed();
}

void Engine::progress() {
  if (closed_) return;
  for (Letter& letter : hub_->mailbox(rank_).take()) {
    Lane& from = lane(*letter.batch->channel, letter.batch->rank);
    from.arrived.push_back(std::move(letter));
    if (!from.expected.empty()) ready_.push_back(&from);
  }
  for (Lane* lane : ready_) deliver(*lane);
  ready_.clear();
}

void Engine::deliver(Lane& lane) {
  while (!lane.arrived.empty() && !lane.expected.empty()) {
    if (!receive(lane.arrived.front(), lane.expected.front())) return;
    lane.arrived.pop_front();
    lane.expected.pop_front();
  }
}

// False if the sender has withdrawn the message; then its failure is on the way.
bool Engine::receive(const Letter& arrived, const Letter& expected) {
  sleep_at_random();
  require_match(arrived, expected);
  if (hub_->options().debug.ledger) require_order(arrived, expected);

  Outgoing& sent = arrived.sent();
  if (!sent.take()) return false;
  move_bytes(sent, expected.expected());
  sent.state = Outgoing::State::received;
  arrived.batch->unreceived.fetch_sub(1);
  if (arrived.batch->rank != rank_) hub_->mailbox(arrived.batch->rank).ring();

  expected.expected().received = true;
  expected.batch->expected -= 1;
  hub_->beat(rank_);
  return true;
}

void Engine::move_bytes(Outgoing& sent, Incoming& expected) {
  Slice& from = sent.slice;
  if (expected.recv.rebind && hub_->world()->lends && from.offset == 0 && from.rows == 1) {
    *expected.recv.rebind = std::move(from.buffer);
    return;
  }
  copy_on_host(expected.recv.slice, from);
  if (expected.from != rank_) traffic_.bytes_copied += from.bytes();
  from.buffer = {};
}

void Engine::require_match(const Letter& arrived, const Letter& expected) {
  const Batch &sender = *arrived.batch, &receiver = *expected.batch;
  const std::int64_t sent = arrived.sent().slice.bytes();
  const std::int64_t awaited = expected.expected().recv.slice.bytes();
  const std::string both =
      concat("rank ", sender.rank, " sends ", sent, " bytes in operation ", sender.sequence, ", ",
             sender.operation, ", where rank ", rank_, " expects ", awaited, " bytes in operation ",
             receiver.sequence, ", ", receiver.operation);
  if (sent != awaited || sender.operation != receiver.operation)
    fail(Error(ErrorKind::peer_failed, both,
               {rank_, sender.rank, receiver.operation, receiver.sequence}));
}

void Engine::require_order(const Letter& arrived, const Letter& expected) {
  (void)arrived, (void)expected;
}

void Engine::fail(const Error& cause) {
  hub_->fail(cause);
  hub_->throw_failure(rank_);
}

void Engine::throw_if_failed() {
  if (!dropped_.empty()) hub_->fail(Error(ErrorKind::peer_failed, dropped_, {rank_, rank_}));
  if (hub_->failed()) hub_->throw_failure(rank_);
}

void Engine::abandon(Batch& batch, bool unwinding) {
  if (batch.done()) return;
  closed_ = true;
  for (Outgoing& message : batch.sends) message.withdraw();
  if (hub_->failed()) return;
  dropped_ = concat("rank ", rank_, " dropped the pending request of operation ", batch.sequence,
                    ", ", batch.operation);
  if (!unwinding)
    hub_->fail(
        Error(ErrorKind::peer_failed, dropped_, {rank_, rank_, batch.operation, batch.sequence}));
}

void Engine::sleep_at_random() {
  const double longest = hub_->options().debug.max_delay;
  if (longest <= 0) return;
  std::uniform_real_distribution<double> seconds(0, longest);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random_)));
}

}  // namespace ringspan::comm::threads
