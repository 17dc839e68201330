// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/engine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm::simulated {
namespace {

constexpr std::int64_t kEventsAhead = 64;  // of a host, in memory

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::int64_t virtual_nanoseconds() { return nanoseconds(Platform::clock()); }

}  // namespace

/// Work of the compute queue that takes a while.
class Engine::Kernel final : public Event {
 public:
  Kernel(Engine& engine, double seconds, std::string_view name, double not_before)
      : engine_(engine), seconds_(seconds), name_(name), not_before_(not_before) {}

  /// Takes on what is issued next, if that is the same as running it after this one: it is issued
  /// before this one can be through, and nothing comes between the two.
  bool take_on(double seconds, double not_before) {
    const bool between = begun() || awaited() || not_before > not_before_ + seconds_;
    if (between || operations_ == engine_.most_at_once_) return false;
    seconds_ += seconds;
    ++operations_;
    return true;
  }

 private:
  void start() override {
    begun_ = std::max(engine_.simulation().now(), not_before_ - engine_.simulation().start());
    engine_.compute_queue_.run(not_before_, seconds_, Call::to<&Kernel::finish>(this));
  }

  void finish() {
    engine_.progressed();
    engine_.simulation().trace(
        {TraceSpan::Kind::kernel, engine_.rank_, name_, begun_, engine_.simulation().now()});
    engine_.finished(operations_);
    end();
  }

  Engine& engine_;
  double seconds_;
  const std::string name_;
  const double not_before_;
  int operations_ = 1;
  double begun_ = 0;
};

Engine::Engine(std::shared_ptr<Simulation> simulation, int rank)
    : simulation_(std::move(simulation)),
      rank_(rank),
      memory_(simulation_->options().debug.poison),
      compute_queue_(simulation_->platform()),
      kernel_noise_(simulation_->cluster().kernel_noise, simulation_->cluster().noise_seed, rank,
                    Noise::Of::kernels),
      message_noise_(simulation_->cluster().message_noise, simulation_->cluster().noise_seed, rank,
                     Noise::Of::messages),
      device_(make_simulated_device(*this)),
      most_at_once_(simulation_->options().trace && !simulation_->options().trace_joins_kernels
                        ? 1
                        : std::clamp(simulation_->cluster().launch_queue / 64, 1, 16)),
      host_time_(simulation_->platform().now()),
      done_at_(simulation_->cluster().launch_queue) {
  if (!simulation_->options().flight_recorder.empty()) recorder_.emplace(rank, virtual_nanoseconds);
}

Engine::~Engine() = default;

double Engine::host_time() const { return host_time_ - simulation_->start(); }

double Engine::issue() { return host_time_ += simulation_->cluster().issue_seconds; }

void Engine::compute(double seconds, std::string_view kernel) {
  require_working();
  RINGSPAN_REQUIRE(std::isfinite(seconds) && seconds >= 0, kernel, ": ", seconds,
                   " seconds; they must not be negative");
  make_room();
  const double not_before = issue();
  seconds *= kernel_noise_.factor();
  queued_seconds_ += seconds;
  if (last_kernel_ && last_kernel_->take_on(seconds, not_before)) {
    ++issued_;
    return;
  }
  const auto queued = std::make_shared<Kernel>(*this, seconds, kernel, not_before);
  enqueue(queued);
  last_kernel_ = queued.get();
}

// In the simulated world a host waits for an operation to make room in the launch queue; when that
// was done is known afterwards. In this one it gives way earlier, without any effect on times, so
// that few events are in memory at once.
void Engine::make_room() {
  const std::int64_t room = std::ssize(done_at_);
  if (issued_ - done_ >= std::min<std::int64_t>(room, kEventsAhead)) {
    const std::shared_ptr<Event> half_way = queued_[queued_.size() / 2];
    suspend_until(half_way);
  }
  if (issued_ >= room) host_time_ = std::max(host_time_, done_at_[issued_ % room]);
}

void Engine::enqueue(const std::shared_ptr<Event>& event) {
  event->after(tail_);
  tail_ = event;
  last_kernel_ = nullptr;
  while (!queued_.empty() && queued_.front()->done()) queued_.pop_front();
  queued_.push_back(event);
  ++issued_;
  event->release();
}

void Engine::finished(int operations) {
  idle_since_ = simulation_->now();
  for (; operations > 0; --operations)
    done_at_[done_++ % std::ssize(done_at_)] = simulation_->platform().now();
}

std::shared_ptr<Operation> Engine::post(std::shared_ptr<const Title> title, std::span<Send> sends,
                                        std::span<Recv> recvs) {
  const auto operation = std::make_shared<Operation>();
  operation->title = std::move(title);
  const std::vector<int>& members = operation->title->channel->members;
  operation->messages.reserve(sends.size() + recvs.size());
  const double not_before = sends.empty() && recvs.empty() ? host_time_ : issue();
  for (Recv& recv : recvs)
    add(*operation, false, members[recv.from], std::move(recv.slice), not_before);
  for (Send& send : sends)
    add(*operation, true, members[send.to], std::move(send.slice), not_before);
  record(*operation);
  progressed();
  return operation;
}

// The message that this is a half of: the first of which only the other half is posted, or a new
// one.
std::shared_ptr<Transfer> Engine::other_half(Channel& channel, int from, int to, bool sending) {
  Channel::Lane& lane = channel.lanes[Channel::pair(from, to)];
  if (lane.first && !(sending ? lane.first->sender : lane.first->receiver).engine) {
    std::shared_ptr<Transfer> first = std::move(lane.first);
    lane.first = std::move(first->next);
    return first;
  }
  auto transfer = std::make_shared<Transfer>();
  (lane.first ? lane.last->next : lane.first) = transfer;
  lane.last = transfer.get();
  return transfer;
}

void Engine::add(Operation& operation, bool sending, int peer, Slice slice, double not_before) {
  const int from = sending ? rank_ : peer, to = sending ? peer : rank_;
  const std::shared_ptr<Transfer> transfer =
      other_half(*operation.title->channel, from, to, sending);
  operation.messages.push_back({transfer, sending, peer});

  const std::int64_t bytes = slice.bytes();
  const bool storage = memory_.has_storage(slice);
  (sending ? transfer->sender : transfer->receiver) = {
      this, operation.title, std::move(slice), storage, bytes, number(sending, peer)};
  if (transfer->sender.engine && transfer->receiver.engine) require_agreement(*transfer);
  if (sending) {
    transfer->take_values();
    count(peer, bytes);
  }
  transfer->not_before = std::max(transfer->not_before, not_before);
  transfer->after(tail_);
  transfer->release();
}

void Engine::count(int to, std::int64_t bytes) {
  if (to == rank_) return;
  traffic_.messages_sent += 1;
  traffic_.bytes_sent += bytes;
  if (simulation_->place(to).node != simulation_->place(rank_).node)
    traffic_.inter_node_bytes_sent += bytes;
}

double Engine::inject(bool between_nodes, double gap_seconds) {
  double& next = next_injection_[between_nodes];
  const double injected = std::max(next, simulation_->platform().now());
  next = injected + gap_seconds;
  return injected;
}

void Engine::record(Operation& operation) {
  if (!recorder_) return;
  const Title& title = *operation.title;
  operation.record = recorder_->post({title.channel->id, title.sequence, title.name});
  for (const Operation::Message& message : operation.messages) {
    message.sending ? recorder_->sends(message.peer, message.end().bytes)
                    : recorder_->receives(message.peer, message.end().bytes);
  }
}

void Engine::progressed() { heartbeat_ = virtual_nanoseconds(); }

void Engine::fail(const Error& cause) {
  simulation_->fail(cause);
  require_working();
  throw cause;
}

void Engine::require_working() {
  RINGSPAN_REQUIRE(simulation_->running(), "the launch that this belongs to has ended");
  if (dropped_) simulation_->fail(*dropped_);
  simulation_->failure().rethrow(rank_);
}

void Engine::abandon(Operation& operation, bool unwinding) {
  for (const Operation::Message& message : operation.messages) {
    message.end().slice = {};
    message.end().storage = false;
  }
  if (std::exchange(operation.settled, true) || operation.done_by(host_time_)) return;
  const Title& title = *operation.title;
  if (!dropped_) {
    dropped_.emplace(ErrorKind::peer_failed,
                     concat("rank ", rank_, " dropped the pending request of operation ",
                            title.sequence, ", ", title.name),
                     Error::Where{rank_, rank_, title.name, title.sequence});
  }
  if (!unwinding) simulation_->fail(*dropped_);
}

}  // namespace ringspan::comm::simulated
