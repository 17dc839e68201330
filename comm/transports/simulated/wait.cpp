// SPDX-License-Identifier: Apache-2.0
// How a rank waits: for messages by ordering its compute queue behind them; otherwise by giving its
// turn to others until what it needs has happened in virtual time.
#include <algorithm>
#include <limits>

#include "comm/transports/simulated/engine.hpp"
#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm::simulated {

/// Where the compute queue waits for the messages of an operation. They own it, so it does not own
/// them.
class Engine::Join final : public Event {
 public:
  Join(Engine& engine, const Operation& operation)
      : engine_(engine), title_(operation.title), record_(operation.record) {}

 private:
  void start() override {
    engine_.simulation().trace({TraceSpan::Kind::wait, engine_.rank_, title_->name,
                                engine_.idle_since_, engine_.simulation().now()});
    if (engine_.recorder_) engine_.recorder_->done(record_);
    engine_.finished(1);
    end();
  }

  Engine& engine_;
  const std::shared_ptr<const Title> title_;
  const std::int64_t record_;
};

/// Resumes the rank.
class Engine::Wake final : public Event {
 public:
  explicit Wake(Engine& engine) : engine_(engine) {}

 private:
  void start() override {
    engine_.wake();
    end();
  }

  Engine& engine_;
};

// Device operations move values when they are issued, so those of this operation must have arrived
// first. That takes the host no virtual time: whatever it issues next comes after the join, which
// no message is later than. `nccl` does block the host for values: there it may look at them at
// once. Here it has them as early but its clock has not, so that whoever times what a host does
// with values synchronizes first.
void Engine::wait(Operation& operation) {
  require_working();
  make_room();
  operation.settled = true;
  const auto join = std::make_shared<Join>(*this, operation);
  for (const Operation::Message& message : operation.messages) join->after(message.transfer);
  while (!awaited_.empty() && awaited_.front()->done()) awaited_.pop_front();
  awaited_.push_back(operation.shared_from_this());
  enqueue(join);
  for (const Operation::Message& message : operation.messages) {
    End& end = message.end();
    if (!message.sending && end.storage) suspend_until(message.transfer);
    end.slice = {};
  }
}

bool Engine::test(Operation& operation, Patience& patience) {
  require_working();
  simulation_->platform().sleep_until(issue());  // if the clock is not there already
  require_working();
  if (!operation.done_by(host_time_)) {
    require_alive(operation, patience);
    return false;
  }
  if (recorder_) recorder_->done(operation.record);
  operation.settled = true;
  return true;
}

void Engine::require_alive(const Operation& operation, Patience& patience) {
  const diagnosis::Waiting waiting{operation.title->channel, operation.title->sequence,
                                   operation.title->name, operation.awaited()};
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (const int peer : waiting.peers) {
    if (simulation_->returned(peer))
      fail(diagnosis::blame_gone(*simulation_, rank_, waiting, peer));
    oldest = std::min(oldest, simulation_->heartbeat(peer));
  }
  if (oldest != patience.heartbeat) patience = {oldest, host_time_};
  const double deadline = simulation_->options().deadline;
  if (host_time_ - patience.changed_at > deadline)
    fail(diagnosis::blame(*simulation_, rank_, waiting, deadline));
}

void Engine::synchronize() {
  require_working();
  if (tail_) block(tail_);
}

void Engine::block(const std::shared_ptr<Event>& event) {
  suspend_until(event);
  host_time_ = std::max(host_time_, event->done_at());
}

void Engine::suspend_until(const std::shared_ptr<Event>& event) {
  if (!event->done()) {
    const auto wake = std::make_shared<Wake>(*this);
    wake->after(event);
    wake->release();
    blocked_ = true;
    while (!event->done() && !simulation_->failure()) simulation_->platform().suspend(rank_);
    blocked_ = false;
  }
  require_working();
}

void Engine::wake() { simulation_->platform().resume(rank_); }

std::optional<diagnosis::Waiting> Engine::waiting() const {
  if (!blocked_) return {};
  const auto first = std::find_if(awaited_.begin(), awaited_.end(),
                                  [](const auto& operation) { return !operation->done(); });
  if (first == awaited_.end()) return diagnosis::Waiting{{}, -1, "synchronize", {}};
  const Title& title = *(*first)->title;
  return diagnosis::Waiting{title.channel, title.sequence, title.name, (*first)->awaited()};
}

}  // namespace ringspan::comm::simulated
