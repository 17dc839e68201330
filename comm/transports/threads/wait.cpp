// SPDX-License-Identifier: Apache-2.0
// How a rank waits: it keeps making progress, spins for a moment where every rank has a core, then
// sleeps in naps. Between naps it looks whether those it waits for still live.
#include <algorithm>
#include <limits>
#include <thread>

#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm::threads {
namespace {

constexpr std::int64_t kSpin = 1'000'000;  // ns; waking a sleeping thread costs about 50'000

}  // namespace

void Engine::wait(Operation& operation) {
  delay_for_debugging();
  block(
      [&] { return operation.done(); },
      [&] {
        return Waiting{operation.channel, operation.sequence, operation.name, operation.awaited()};
      });
  finish(operation);
}

bool Engine::test(Operation& operation, Patience& patience) {
  const std::int64_t seen = hub_->mailbox(rank_).events();
  progress();
  if (!operation.done()) {
    require_working();
    require_alive(
        {operation.channel, operation.sequence, operation.name, operation.awaited(), steady_now()},
        patience, seen);
    return false;
  }
  finish(operation);
  return true;
}

void Engine::finish(const Operation& operation) {
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  recorder_.done(operation.record);
}

void Engine::wait_for_sole_owner(const Buffer& buffer) {
  block([&] { return !buffer || buffer.sole_owner(); },
        [&] {
          Waiting waiting;
          waiting.operation = concat("reclaim of a lent buffer of ", buffer.bytes(), " bytes");
          for (const int peer : hub_->holders(buffer))
            if (peer != rank_ && !hub_->returned(peer)) waiting.peers.push_back(peer);
          return waiting;
        });
  hub_->reclaimed(buffer);
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
}

void Engine::block(const Predicate& done, const std::function<Waiting()>& waiting) {
  Patience patience;
  for (;;) {
    const std::int64_t seen = hub_->mailbox(rank_).events();
    progress();
    if (done()) break;
    require_working();
    if (spin(done, seen)) continue;

    const Waiting now = waiting();
    require_alive(now, patience, seen);
    // Nobody rings when a lent buffer comes free: look for it often.
    hub_->mailbox(rank_).sleep(seen, now.group ? nap() : std::min(nap(), 1e-3));
  }
}

// True if something happened.
bool Engine::spin(const Predicate& done, std::int64_t seen) const {
  if (hub_->crowded()) return false;
  const std::int64_t end = steady_now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (hub_->mailbox(rank_).events() != seen || done()) return true;
      diagnosis::relax();
    }
    std::this_thread::yield();  // to other processes on a busy machine
  } while (steady_now() < end);
  return false;
}

// Short enough for heartbeats to pass along a chain of all ranks within the deadline.
double Engine::nap() const {
  return std::clamp(hub_->options().deadline / (4 * hub_->size()), 1e-4, 0.1);
}

// `seen`: events before the last look into the mailbox. If there are no more now, that look has
// found everything a peer did before it returned.
void Engine::require_alive(const Waiting& waiting, Patience& patience, std::int64_t seen) {
  hub_->set_waiting(rank_, waiting);
  for (const int peer : waiting.peers) {
    if (waiting.group && hub_->returned(peer) && hub_->mailbox(rank_).events() == seen)
      fail(diagnosis::blame_gone(*hub_, rank_, waiting, peer));
    hub_->pass_on(rank_, hub_->heartbeat(peer));
  }
  const std::int64_t heartbeat = heartbeat_of(waiting);
  if (patience.seconds_since_change(heartbeat) <= hub_->options().deadline) return;
  const auto over = [&] { return hub_->failure() || heartbeat_of(waiting) != heartbeat; };
  if (diagnosis::had_its_chance(over))
    fail(diagnosis::blame(*hub_, rank_, waiting, hub_->options().deadline));
}

// An operation needs all of its peers: the oldest counts. A lent buffer may be with any one of
// them: the newest.
std::int64_t Engine::heartbeat_of(const Waiting& waiting) const {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max(), newest = 0;
  for (const int peer : waiting.peers) {
    oldest = std::min(oldest, hub_->heartbeat(peer));
    newest = std::max(newest, hub_->heartbeat(peer));
  }
  return waiting.group ? oldest : newest;
}

}  // namespace ringspan::comm::threads
