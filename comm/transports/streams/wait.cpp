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

constexpr double kEnding = 2;     // seconds that a process may take to end, its memory gone already
constexpr double kNaming = 0.25;  // seconds, in which it turns out who is gone
constexpr double kSpin = 2e-3;    // seconds, where every rank has a core: naps are seen in timings

double seconds_since(std::int64_t start) {
  return static_cast<double>(diagnosis::steady_now() - start) * 1e-9;
}

// A connection may say that another rank is at fault, but not which.
int to_blame(const Error& error, int rank) {
  return error.kind() == ErrorKind::peer_failed ? -1 : rank;
}

}  // namespace

void Engine::wait(Operation& operation) {
  delay_for_debugging();
  if (!operation.finished) require_working();
  watched(operation.name, operation.sequence, [&] {
    if (!operation.finished) retire();
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
  if (!operation.finished &&
      (device_.blocking() ||
       std::any_of(operation.recvs.begin(), operation.recvs.end(), awaited_by_host)))
    block([&] { return operation.finished; }, hub_->options().deadline);
  operation.settled = true;
  operation.let_go();
}

bool Engine::test(Operation& operation, Patience& patience) {
  if (!operation.finished) {
    require_working();
    watched(operation.name, operation.sequence, [&] {
      retire();
      if (operation.finished) return;
      connection_->ready();
      require_alive(waiting(), patience, hub_->options().deadline);
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
    retire();
    if (done()) break;
    connection_->ready();
    require_alive(waiting(), patience, deadline);
    if (!hub_->crowded() && seconds_since(start) < kSpin) {
      std::this_thread::yield();
      continue;
    }
    hub_->sleep(rank_, seen,
                std::min(cuda::nap_after(seconds_since(start)), deadline / (4 * hub_->size())));
  }
  retire();
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
}

// The transfer stream runs in order, so it is the oldest operation that holds it up.
const Operation* Engine::oldest() const {
  return in_flight_.empty() ? posting_.get() : in_flight_.front().get();
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
  if (!operation->ready.done()) {
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

void Engine::require_working() {
  if (closed_)
    throw Error(ErrorKind::invalid_argument, "the launch that this belongs to has ended");
  if (dropped_) hub_->fail(*dropped_);
  if (!hub_->failure()) return;
  give_up();
  hub_->failure().rethrow(rank_);
}

void Engine::fail(const Error& cause) {
  hub_->fail(cause);
  require_working();
  throw cause;
}

// A process that ends takes its memory along, and is seen to have ended only then: that another
// cannot open what it has announced is no fault of that one's.
void Engine::require_process(int peer) {
  const std::int64_t start = diagnosis::steady_now();
  const double longest = std::min(kEnding, hub_->options().deadline);
  while (hub_->lost(peer).empty() && seconds_since(start) < longest) {
    require_working();
    hub_->beat(rank_);  // others may wait for this rank, and are to see its error, not its silence
    std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
  }
  if (const std::string lost = hub_->lost(peer); !lost.empty())
    fail(diagnosis::blame_gone(*hub_, rank_,
                               {posting_->channel, posting_->sequence, posting_->name, {peer}},
                               peer, "is gone: " + lost));
}

// NCCL may notice that another process is gone, but says no name; what watches processes does, a
// little later.
void Engine::await_name(const Error& error) {
  const std::int64_t start = diagnosis::steady_now();
  while (error.kind() == ErrorKind::peer_failed && !hub_->failure() &&
         seconds_since(start) < kNaming) {
    for (int rank = 0; rank < hub_->size(); ++rank) {
      const std::string lost = hub_->returned(rank) ? "" : hub_->lost(rank);
      if (!lost.empty())
        hub_->fail(Error(ErrorKind::peer_failed, concat("rank ", rank, " is gone: ", lost),
                         {rank_, rank}));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// What fails after a failure of the world is due to that one.
void Engine::report(const Error& error, std::string_view operation, std::int64_t sequence) {
  await_name(error);
  require_working();
  if (const int peer = error.where().peer; peer >= 0 && peer != rank_) require_process(peer);
  Error::Where where{rank_, to_blame(error, rank_), std::string(operation), sequence};
  const Operation* const first = oldest();
  if (sequence < 0 && first) where.operation = first->name, where.sequence = first->sequence;
  const std::string named =
      where.sequence < 0 ? "" : concat(", operation ", where.sequence, ", ", where.operation);
  fail(Error(error.kind(), concat("rank ", rank_, named, ": ", error.what()), where));
}

bool Engine::busy() const {
  const auto busy = [](const auto& queues) {
    try {
      return !queues.idle();
    } catch (const Error&) {
      return false;  // they have failed, and do nothing more
    }
  };
  return busy(*transfer_) || busy(*connection_) || busy(device_.compute());
}

bool Engine::nobody_active() const {
  for (int rank = 0; rank < hub_->size(); ++rank)
    if (hub_->active(rank)) return false;
  return true;
}

// Once the caller sees a failure, nothing is to write or read its memory any more. What still does
// when the deadline has passed finds it there: see Watchdog.
void Engine::give_up() {
  if (std::exchange(gave_up_, true)) return;
  connection_->abort();
  const std::int64_t start = diagnosis::steady_now();
  const double longest = hub_->options().deadline;  // which queued kernels must keep
  const auto nap_while = [&](const auto& condition) {
    while (condition() && seconds_since(start) < longest) {
      std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
      connection_->abort();
    }
  };
  nap_while([this] { return busy(); });
  if (!busy()) hub_->set_active(rank_, false);
  nap_while([this] { return !nobody_active(); });
}

void Engine::finish() {
  block([this] { return in_flight_.empty() && device_.compute().idle() && transfer_->idle(); },
        hub_->options().deadline);
  require_working();
}

void Engine::close() {
  hub_->await_returns(rank_);
  try {
    require_working();
    connection_->finalize();
    const std::int64_t start = diagnosis::steady_now();
    const auto nap_until = [&](const auto& condition) {
      while (!condition()) {
        require_working();
        if (seconds_since(start) > hub_->options().deadline)
          throw Error(ErrorKind::timeout,
                      concat("rank ", rank_, ": the connection to the other ranks does not end"));
        std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
      }
    };
    nap_until([this] { return connection_->ready(); });
    connection_->destroy();
    hub_->set_active(rank_, false);
  } catch (const Error& error) {
    hub_->fail(error);
    give_up();
    if (quiet()) {
      in_flight_.clear();
      posting_ = nullptr;
      connection_->destroy();
    }
  }
  device_.on_poll({});
  device_.on_wait({});
  closed_ = true;
}

void Engine::interrupt() {
  if (hub_->failure()) {
    connection_->abort();
    const std::unique_lock queueing(queueing_, std::try_to_lock);
    if (queueing && !busy()) hub_->set_active(rank_, false);  // its own thread may be elsewhere
    return;
  }
  try {
    connection_->ready();
  } catch (const Error& error) {
    await_name(error);
    hub_->fail(Error(error.kind(), concat("rank ", rank_, ": ", error.what()),
                     {rank_, to_blame(error, rank_)}));
  }
}

}  // namespace ringspan::comm::streams
