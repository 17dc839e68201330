// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/nccl/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/devices/cuda/copy.hpp"

namespace ringspan::comm::nccl {
namespace {

cuda::DeviceOptions device_options(const LaunchOptions& options) {
  cuda::DeviceOptions device;
  device.poison = options.debug.poison;
  device.blocking = options.debug.blocking;
  device.deadline = options.deadline;
  return device;
}

}  // namespace

Engine::Engine(std::shared_ptr<threads::Hub> hub, std::shared_ptr<Pairs> pairs, int rank,
               const std::shared_ptr<const cuda::Gpu>& gpu, std::unique_ptr<Connection> connection)
    : hub_(std::move(hub)),
      pairs_(std::move(pairs)),
      rank_(rank),
      gpu_(gpu),
      device_(gpu, device_options(hub_->options())),
      transfer_(std::make_shared<cuda::Stream>(gpu)),
      staging_(std::make_shared<cuda::Memory>(transfer_, cuda::Allocator{}, false)),
      token_sent_(staging_->allocate(1)),
      token_received_(staging_->allocate(1)),
      connection_(std::move(connection)),
      recorder_(rank),
      sent_(hub_->size()),
      awaited_(hub_->size()),
      random_(hub_->options().debug.seed + rank) {
  device_.on_poll([this] { poll(); });
  device_.on_wait([this](const Predicate& done, double deadline) {
    block(done, deadline);
    require_working();
  });
}

Engine::~Engine() = default;

void Engine::connect() {
  block([this] { return connection_->ready(); }, hub_->options().deadline);
  connected_ = true;
}

std::shared_ptr<Operation> Engine::post(const std::shared_ptr<Channel>& channel,
                                        std::int64_t sequence, std::string_view name,
                                        std::span<Send> sends, std::span<Recv> recvs) {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  // Out here, so that after a failure it holds its memory until what is queued has ended.
  std::shared_ptr<Operation> operation;
  watched(name, sequence, [&] {
    operation = std::make_shared<Operation>(gpu_);
    operation->channel = channel;
    operation->sequence = sequence;
    operation->name = name;
    take_over(*operation, sends, recvs);
    pair(*operation);
    count(*operation);
    if (operation->sends.empty() && operation->recvs.empty()) {
      operation->finished = true;
      recorder_.done(operation->record);
      return;
    }
    posting_ = operation;
    queue(*operation);
    in_flight_.push_back(std::exchange(posting_, nullptr));
    retire();
  });
  return operation;
}

void Engine::take_over(Operation& operation, std::span<Send> sends, std::span<Recv> recvs) {
  const std::vector<int>& members = operation.channel->members;
  operation.record = recorder_.post({operation.channel->id, operation.sequence, operation.name});
  for (Send& send : sends) {
    operation.sends.push_back({members[send.to], std::move(send.slice)});
    recorder_.sends(members[send.to], operation.sends.back().slice.bytes());
  }
  for (Recv& recv : recvs) {
    operation.recvs.push_back({members[recv.from], std::move(recv.slice)});
    recorder_.receives(members[recv.from], operation.recvs.back().slice.bytes());
  }
}

// A half that does not fit is reported before NCCL sees it.
void Engine::pair(Operation& operation) {
  std::optional<Error> wrong;
  const auto half = [&](const Message& message, std::int64_t number) {
    return diagnosis::Half{rank_, operation.name, operation.sequence, message.slice.bytes(),
                           number};
  };
  const std::int64_t channel = operation.channel->id;
  for (Message& message : operation.recvs)
    message.place = pairs_->add({message.peer, rank_, channel},
                                half(message, awaited_[message.peer]++), false, wrong);
  for (Message& message : operation.sends)
    message.place = pairs_->add({rank_, message.peer, channel},
                                half(message, sent_[message.peer]++), true, wrong);
  if (wrong) fail(*wrong);
}

void Engine::count(const Operation& operation) {
  const std::vector<Place>& places = hub_->world()->places;
  for (const Message& message : operation.sends) {
    if (message.peer == rank_) continue;
    const bool leaves_node = places[message.peer].node != places[rank_].node;
    traffic_.messages_sent += 1;
    traffic_.bytes_sent += message.slice.bytes();
    traffic_.inter_node_bytes_sent += leaves_node ? message.slice.bytes() : 0;
  }
  for (const Message& message : operation.recvs)
    if (message.peer != rank_) traffic_.bytes_copied += message.slice.bytes();
}

// NCCL knows neither rows nor empty messages: rows are packed into memory of the transfer stream,
// and an empty message carries one byte, so that it is waited for like any other.
void Engine::queue(const Operation& operation) {
  std::vector<Part> sends, recvs;
  std::vector<Slice> unpacked;  // [recv], whole() of what its rows come from; or empty
  const auto part = [this](const Message& message, const Buffer& token, const Slice& packed) {
    if (message.slice.bytes() == 0) return Part{message.peer, token.data(), 1};
    const Slice& slice = packed.buffer ? packed : message.slice;
    return Part{message.peer, slice.data(), slice.bytes()};
  };
  const auto packing = [this](const Slice& slice) {
    const bool needed = !slice.contiguous() && slice.bytes() > 0;
    return needed ? whole(staging_->allocate(slice.bytes())) : Slice{};
  };

  device_.compute().record(operation.ready);
  transfer_->wait(operation.ready);
  std::vector<Slice> packed;  // until they have been queued
  for (const Message& message : operation.sends) {
    packed.push_back(packing(message.slice));
    if (packed.back().buffer) cuda::queue_copy(*transfer_, packed.back(), message.slice);
    sends.push_back(part(message, token_sent_, packed.back()));
  }
  for (const Message& message : operation.recvs) {
    unpacked.push_back(packing(message.slice));
    recvs.push_back(part(message, token_received_, unpacked.back()));
  }
  connection_->exchange(sends, recvs, *transfer_);
  block([this] { return connection_->ready(); }, hub_->options().deadline);
  for (std::size_t i = 0; i < unpacked.size(); ++i)
    if (unpacked[i].buffer) cuda::queue_copy(*transfer_, operation.recvs[i].slice, unpacked[i]);
  transfer_->record(operation.over);
}

void Engine::poll() {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  require_working();
  watched("", -1, [this] {
    retire();
    connection_->ready();
  });
}

// What is over lets go of its memory. After a failure it may be over because it was aborted.
void Engine::retire() {
  while (!in_flight_.empty() && in_flight_.front()->over.done()) {
    require_working();
    Operation& operation = *in_flight_.front();
    operation.finished = true;
    operation.let_go();
    recorder_.done(operation.record);
    in_flight_.pop_front();
    hub_->beat(rank_);
  }
}

void Engine::abandon(Operation& operation, bool unwinding) {
  if (operation.settled || operation.finished || closed_) return;
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

}  // namespace ringspan::comm::nccl
