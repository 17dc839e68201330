// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/engine.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "comm/transports/device_options.hpp"

namespace ringspan::comm::streams {
namespace {

cuda::DeviceOptions traced_device(const LaunchOptions& options, const Connection& connection,
                                  const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
  cuda::DeviceOptions device = device_options(options, gpu, rank);
  if (!device.allocator.allocate) device.allocator = connection.allocator();
  device.trace = options.trace;
  return device;
}

}  // namespace

Engine::Engine(std::shared_ptr<diagnosis::Hub> hub, int rank,
               const std::shared_ptr<const cuda::Gpu>& gpu,
               std::unique_ptr<Connection>&& connection)
    : hub_(std::move(hub)),
      rank_(rank),
      gpu_(gpu),
      device_(gpu, traced_device(hub_->options(), *connection, gpu, rank)),
      transfer_(std::make_shared<cuda::Stream>(gpu)),
      recorder_(rank),
      sent_(hub_->size()),
      awaited_(hub_->size()),
      random_(hub_->options().debug.seed + rank) {
  device_.on_poll([this] { poll(); });
  device_.on_wait([this](const Predicate& done, double deadline) {
    const bool captured = watched("", -1, [this] { return device_.compute().capturing(); });
    captured ? void(done()) : block(done, deadline);  // nothing is looked at while it lasts
    require_working();
  });
  device_.on_capture(capture());
  hub_->set_active(rank_, true);
  connection_ = std::move(connection);  // last: what throws before leaves it with the caller
}

Engine::~Engine() = default;

void Engine::connect() {
  block([this] { return connection_->ready(); }, hub_->options().deadline);
  watched("", -1, [this] { connection_->open(*transfer_); });
  connected_ = true;
}

void Engine::require_room(std::string_view operation, std::span<const Send> sends,
                          std::span<const Recv> recvs) const {
  std::map<int, std::int64_t> out, in;  // [rank of the group]
  std::int64_t most = 0;
  for (const Send& send : sends) most = std::max(most, ++out[send.to]);
  for (const Recv& recv : recvs) most = std::max(most, ++in[recv.from]);
  if (most > Lanes::kSlots)
    throw Error(
        ErrorKind::not_available,
        concat(operation, ": ", most, " messages from one rank to another; in one operation ",
               Lanes::kSlots, " can be"));
}

std::shared_ptr<Operation> Engine::post(const std::shared_ptr<Channel>& channel,
                                        std::int64_t sequence, std::string_view name,
                                        std::span<Send> sends, std::span<Recv> recvs) {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  return watched(name, sequence, [&] {
    // After a failure it stays, for others may touch its memory as soon as it is announced.
    posting_ = std::make_shared<Operation>(gpu_);
    posting_->channel = channel;
    posting_->sequence = sequence;
    posting_->captured = captured_.has_value();
    posting_->name = posting_->captured ? concat("capture of ", name) : std::string(name);
    take_over(*posting_, sends, recvs);
    announce(*posting_);
    if (posting_->captured) captured_->push_back(posting_);
    if (!posting_->captured) count(*posting_);
    const bool empty = posting_->sends.empty() && posting_->recvs.empty();
    if (!empty) queue(*posting_);
    if (empty || posting_->captured) {
      posting_->finished = empty;
      recorder_.done(posting_->records.front());
      return std::exchange(posting_, nullptr);
    }
    in_flight_.push_back(std::exchange(posting_, nullptr));
    const std::shared_ptr<Operation> operation = in_flight_.back();
    retire();
    return operation;
  });
}

void Engine::take_over(Operation& operation, std::span<Send> sends, std::span<Recv> recvs) {
  const std::vector<int>& members = operation.channel->members;
  operation.records = {recorder_.post({operation.channel->id, operation.sequence, operation.name})};
  for (Send& send : sends) {
    const int peer = members[send.to];
    keep(operation, send.slice);
    operation.sends.push_back({peer, std::move(send.slice), true, sent_[peer]++});
    recorder_.sends(peer, operation.sends.back().slice.bytes());
  }
  for (Recv& recv : recvs) {
    const int peer = members[recv.from];
    keep(operation, recv.slice);
    operation.recvs.push_back({peer, std::move(recv.slice), false, awaited_[peer]++});
    recorder_.receives(peer, operation.recvs.back().slice.bytes());
  }
}

// What the caller brings may be freed as soon as nobody holds it, whatever is queued.
void Engine::keep(Operation& operation, const Slice& slice) const {
  if (slice.bytes() > 0 && !device_.keeps(slice))
    operation.held.push_back(std::make_shared<const Buffer>(slice.buffer));
}

// A half that does not fit is reported before it is queued.
void Engine::announce(Operation& operation) {
  block([&] { return connection_->room(operation); }, hub_->options().deadline);
  if (const auto wrong = connection_->announce(operation)) fail(*wrong);
}

void Engine::count(const Operation& operation) {
  const std::vector<comm::Place>& places = hub_->world()->places;
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

// After a failure nothing is queued any more: see interrupt().
void Engine::queue(Operation& operation) {
  const std::lock_guard lock(queueing_);
  require_working();
  device_.compute().record(operation.ready);
  transfer_->wait(operation.ready);
  const cuda::Timeline::Mark begun = mark(*transfer_);
  connection_->begin(operation, *transfer_);
  block([this] { return connection_->ready(); }, hub_->options().deadline);
  connection_->end(operation, *transfer_);
  const cuda::Timeline::Mark ended = mark(*transfer_);
  transfer_->record(operation.over);
  if (!begun) return;
  for (const Message& message : operation.sends)
    if (message.peer != rank_)
      device_.timeline()->add(TraceSpan::Kind::message, operation.name, begun, ended, message.peer,
                              message.slice.bytes());
}

cuda::Timeline::Mark Engine::mark(const cuda::Stream& stream) const {
  return device_.timeline() ? device_.timeline()->mark(stream) : nullptr;
}

void Engine::poll() {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  require_working();
  watched("", -1, [this] {
    if (device_.compute().capturing()) return;
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
    operation.held.clear();
    for (const std::int64_t record : operation.records) recorder_.done(record);
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

}  // namespace ringspan::comm::streams
