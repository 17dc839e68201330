// SPDX-License-Identifier: Apache-2.0
// How a rank's host waits for its streams: it looks, naps, and finds out between naps whether those
// whose messages the transfer stream is held up by still live.
#include <algorithm>
#include <limits>
#include <thread>

#include "comm/devices/cuda/host_clock.hpp"
#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {
namespace {

using diagnosis::Waiting;

constexpr double kSpin = 2e-3;  // seconds, where every rank has a core: naps are seen in timings

}  // namespace

void Engine::wait(Operation& operation) {
  delay_for_debugging();
  if (!operation.finished) require_working();
  watched(operation.name, operation.sequence, [&] {
    if (!operation.finished && !operation.captured) retire();
    const cuda::Timeline::Mark before = mark(device_.compute());
    if (!operation.finished) device_.compute().wait(operation.over);
    if (before)
      device_.timeline()->add(TraceSpan::Kind::wait, operation.name, before,
                              operation.finished ? before : mark(device_.compute()));
  });
  // The host may look at values now.
  const auto awaited_by_host = [this](const Message& message) {
    return device_.holds_values(message.slice);
  };
  if (!operation.finished && !operation.captured &&
      (device_.blocking() ||
       std::any_of(operation.recvs.begin(), operation.recvs.end(), awaited_by_host)))
    block([&] { return operation.finished; }, hub_->options().deadline);
  operation.settled = true;
  operation.let_go();
  if (operation.captured) operation.held.clear();  // from here on it is the caller's to keep
}

bool Engine::test(Operation& operation, Patience& patience) {
  if (!operation.finished) {
    require_working();
    watched(operation.name, operation.sequence, [&] {
      retire();
      if (operation.finished) return;
      connection_->ready();
      Waiting now = waiting();
      now.looked_at = diagnosis::steady_now();
      require_alive(now, patience, hub_->options().deadline);
    });
  }
  if (!operation.finished) return false;
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  return true;
}

void Engine::block(const Predicate& done, double deadline) {
  watched("", -1, [&] { look_until(done, deadline); });
}

void Engine::look_until(const Predicate& done, double deadline) {
  Patience patience;
  for (const std::int64_t start = diagnosis::steady_now();;) {
    const std::int64_t seen = hub_->events(rank_);
    require_working();
    if (!captured_) retire();
    if (done()) break;
    connection_->ready();
    require_alive(waiting(), patience, deadline);
    if (!hub_->crowded() && diagnosis::seconds_since(start) < kSpin) {
      std::this_thread::yield();
      continue;
    }
    hub_->sleep(
        rank_, seen,
        std::min(cuda::nap_after(diagnosis::seconds_since(start)), deadline / (4 * hub_->size())));
  }
  if (!captured_) retire();
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
}

// The transfer stream runs in order, so it is the oldest operation that holds it up; but what a
// graph captures is not behind the others.
const Operation* Engine::oldest() const {
  const bool captured = posting_ && posting_->captured;
  return in_flight_.empty() || captured ? posting_.get() : in_flight_.front().get();
}

// Those that have not begun to connect; if all have, those whom that takes so long.
std::vector<int> Engine::not_connected() const {
  std::vector<int> late, others;
  for (int rank = 0; rank < hub_->size(); ++rank) {
    if (!hub_->active(rank)) late.push_back(rank);
    if (rank != rank_) others.push_back(rank);
  }
  return late.empty() ? others : late;
}

Waiting Engine::waiting() const {
  const Operation* const operation = oldest();
  if (!connected_) return {nullptr, -1, "all ranks to be connected", not_connected()};
  if (!operation) return {nullptr, -1, "the end of what is queued", {}};
  if (!operation->captured && !operation->ready.done()) {
    return {nullptr,
            operation->sequence,
            concat("kernels before operation ", operation->sequence, ", ", operation->name),
            {}};
  }
  // Those that have not posted their halves; if all have, those whose bytes are on their way.
  Waiting waiting{operation->channel, operation->sequence, operation->name, {}};
  std::vector<int> all;
  for (const auto* messages : {&operation->sends, &operation->recvs}) {
    for (const Message& message : *messages) {
      all.push_back(message.peer);
      if (!connection_->has_met(message)) waiting.peers.push_back(message.peer);
    }
  }
  if (waiting.peers.empty()) waiting.peers = std::move(all);
  return waiting;
}

bool Engine::lacks(const Operation& operation, int peer) const {
  for (const auto* messages : {&operation.sends, &operation.recvs})
    for (const Message& message : *messages)
      if (message.peer == peer && !connection_->has_met(message)) return true;
  return false;
}

void Engine::require_alive(const Waiting& waiting, Patience& patience, double deadline) {
  hub_->set_waiting(rank_, waiting);
  for (const int peer : waiting.peers) {
    if (const std::string lost = hub_->lost(peer); !lost.empty())
      fail(diagnosis::blame_gone(*hub_, rank_, waiting, peer, "is gone: " + lost));
    if (waiting.group && hub_->returned(peer) && lacks(*oldest(), peer))
      fail(diagnosis::blame_gone(*hub_, rank_, waiting, peer));
    hub_->pass_on(rank_, hub_->heartbeat(peer));
  }
  const std::int64_t heartbeat = heartbeat_of(waiting);
  if (patience.seconds_since_change(heartbeat) < deadline) return;
  const auto over = [&] { return hub_->failure() || heartbeat_of(waiting) != heartbeat; };
  if (!diagnosis::had_its_chance(over)) return;
  if (!waiting.peers.empty()) fail(diagnosis::blame(*hub_, rank_, waiting, deadline));
  fail(Error(ErrorKind::timeout,
             concat("rank ", rank_, " waits for ", waiting.operation,
                    "; nothing has ended on its GPU (deadline ", deadline, " s)"),
             {rank_, rank_, waiting.operation, waiting.sequence}));
}

// An operation needs all of its peers: the oldest counts.
std::int64_t Engine::heartbeat_of(const Waiting& waiting) const {
  std::int64_t oldest =
      waiting.peers.empty() ? hub_->heartbeat(rank_) : std::numeric_limits<std::int64_t>::max();
  for (const int peer : waiting.peers) oldest = std::min(oldest, hub_->heartbeat(peer));
  return oldest;
}

}  // namespace ringspan::comm::streams
