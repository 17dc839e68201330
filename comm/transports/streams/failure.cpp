// SPDX-License-Identifier: Apache-2.0
// How a rank's engine fails, and how it ends: what is queued ends first, and so does what others
// have queued on its memory.
#include <algorithm>
#include <thread>

#include "comm/devices/cuda/host_clock.hpp"
#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {
namespace {

constexpr double kNaming = 0.25;  // seconds, in which it turns out who is gone
constexpr double kEnding = 2;     // seconds that a process may take to end, its memory gone already

// A connection may say that another rank is at fault, but not which.
int to_blame(const Error& error, int rank) {
  return error.kind() == ErrorKind::peer_failed ? -1 : rank;
}

}  // namespace

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

std::optional<Error> Engine::who_is_gone() const {
  for (int rank = 0; rank < hub_->size(); ++rank) {
    const std::string lost = hub_->returned(rank) ? "" : hub_->lost(rank);
    if (!lost.empty())
      return Error(ErrorKind::peer_failed, concat("rank ", rank, " is gone: ", lost),
                   {rank_, rank});
  }
  return {};
}

// NCCL may notice that another process is gone, but says no name; what watches processes does, a
// little later.
void Engine::await_name(const Error& error) {
  const std::int64_t start = diagnosis::steady_now();
  while (error.kind() == ErrorKind::peer_failed && !hub_->failure() &&
         diagnosis::seconds_since(start) < kNaming) {
    if (const auto gone = who_is_gone()) hub_->fail(*gone);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A process that ends takes its memory along, and is seen to have ended only then: that another
// cannot open what it has announced is no fault of that one's.
void Engine::require_process(int peer) {
  const std::int64_t start = diagnosis::steady_now();
  const double longest = std::min(kEnding, hub_->options().deadline);
  while (hub_->lost(peer).empty() && diagnosis::seconds_since(start) < longest) {
    require_working();
    hub_->beat(rank_);  // others may wait for this rank, and are to see its error, not its silence
    std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
  }
  if (const std::string lost = hub_->lost(peer); !lost.empty())
    fail(diagnosis::blame_gone(*hub_, rank_,
                               {posting_->channel, posting_->sequence, posting_->name, {peer}},
                               peer, "is gone: " + lost));
}

// What fails after a failure of the world is due to that one.
void Engine::report(const Error& error, std::string_view operation, std::int64_t sequence) {
  if (error.where().peer < 0) await_name(error);
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
  const auto busy = [](const auto& idle) {
    try {
      return !idle();
    } catch (const Error&) {
      return false;  // it has failed, and does nothing more
    }
  };
  return busy([this] { return transfer_->idle(); }) ||
         busy([this] { return connection_->idle(); }) || busy([this] { return end_.reached(); });
}

bool Engine::nobody_active() const {
  for (int rank = 0; rank < hub_->size(); ++rank)
    if (hub_->active(rank)) return false;
  return true;
}

// Once the caller sees a failure, nothing is to write or read its memory any more. What still does
// when the deadline has passed finds it there: see Watchdog. While a graph is captured streams tell
// nothing; its end waits for them.
void Engine::give_up() {
  if (gave_up_) return;
  connection_->abort();
  if (captured_) return;
  gave_up_ = true;
  end_.renew();
  let_go_of_graphs();
  const std::int64_t start = diagnosis::steady_now();
  const double longest = hub_->options().deadline;  // which queued kernels must keep
  const auto nap_while = [&](const auto& condition) {
    while (condition() && diagnosis::seconds_since(start) < longest) {
      std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
      connection_->abort();
    }
  };
  nap_while([this] { return busy(); });
  if (!busy()) hub_->set_active(rank_, false);
  nap_while([this] { return !nobody_active(); });
}

void Engine::finish() {
  cuda::End end(device_.compute());
  block([&] { return in_flight_.empty() && end.reached() && transfer_->idle(); },
        hub_->options().deadline);
  require_working();
  let_go_of_graphs();
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
        if (diagnosis::seconds_since(start) > hub_->options().deadline)
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
  device_.on_capture({});
  end_.renew();  // for quiet()
  closed_ = true;
}

// A rank whose own thread waits for who is gone can tell for what, and so comes first.
void Engine::notice_who_is_gone() {
  const auto gone = who_is_gone();
  if (!gone) return void(gone_since_.reset());
  if (!gone_since_) gone_since_ = diagnosis::steady_now();
  if (diagnosis::seconds_since(*gone_since_) > kNaming) hub_->fail(*gone);
}

void Engine::interrupt() {
  if (hub_->failure()) {
    connection_->abort();
    const std::unique_lock queueing(queueing_, std::try_to_lock);
    if (queueing && !busy()) hub_->set_active(rank_, false);  // its own thread may be elsewhere
    return;
  }
  notice_who_is_gone();
  try {
    connection_->ready();
  } catch (const Error& error) {
    await_name(error);
    hub_->fail(Error(error.kind(), concat("rank ", rank_, ": ", error.what()),
                     {rank_, to_blame(error, rank_)}));
  }
}

}  // namespace ringspan::comm::streams
