// SPDX-License-Identifier: Apache-2.0
// How a rank waits: it keeps making progress, and after a while asks those it waits for how they
// are. Nobody wakes it, so it never sleeps for long.
#include <algorithm>
#include <limits>
#include <thread>

#include "comm/transports/processes/engine.hpp"

namespace ringspan::comm::processes {
namespace {

using diagnosis::steady_now;
using diagnosis::Waiting;

// Seconds.
constexpr double kNap = 4e-3;
constexpr double kIdleNap = 5e-3;
constexpr double kLastSent = 1.0;    // what one that has returned had sent before takes at most
constexpr double kChance = 10e-3;    // a few turns of the scheduler
constexpr double kAnswer = 0.25;     // what an answer takes at most
constexpr double kLastChance = 1.0;  // however busy the machine is
constexpr double kPrecedence = 0.5;  // by which ranks that have returned complain later
constexpr double kFarewell = 0.35;   // after a failure, for others to learn of it and return
constexpr double kLastWord = 0.2;    // for that of rank 0, which takes its farewell first

// Bytes per second that a rank gets at least, of a network and of the memory of a busy node.
constexpr double kSlowestNetwork = 25e6, kSlowestMemory = 500e6;

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

// Between two questions: short enough for heartbeats to pass along a chain of all ranks within the
// deadline.
std::int64_t question_interval(const LaunchOptions& options) {
  return nanoseconds(std::clamp(options.deadline / (4 * options.ranks), 1e-3, 0.1));
}

}  // namespace

// What has arrived already costs one look.
void Engine::block(Operation& operation) {
  if (!closed_) look_after(operation, false);
  if (operation.done()) return retire();
  Patience patience;
  Idling idling(crowded_, kNap);
  for (;;) {
    progress();
    if (operation.done()) return;
    require_working();
    if (idling.pause()) require_hope(operation, patience);
  }
}

// From time to time.
void Engine::require_hope(Operation& operation, Patience& patience) {
  if (!operation.started) return;  // it waits for this rank's own GPU
  const std::int64_t now = steady_now();
  if (patience.ask_at == 0) patience.ask_at = now + question_interval(options_);
  if (now < patience.ask_at) return;
  patience.ask_at = now + question_interval(options_);
  look_after(operation, true);
  if (operation.done()) return;
  const Waiting waiting{operation.channel, operation.sequence, operation.name, operation.awaited()};
  peers_.set_waiting(waiting);
  const bool moving = may_be_moving();
  if (moving) peers_.beat();
  const double longest = moving ? std::numeric_limits<double>::infinity() : options_.deadline;
  const auto error = hopeless(waiting, longest, patience, [&] { return operation.done(); });
  if (error) fail_with(*error);
}

// A network does not tell how much of a message has come, and answers may queue up behind it. So
// for as long as what both sides have posted takes on a slow link, it counts as progress; so, once,
// does what a peer that does not answer may have posted.
bool Engine::may_be_moving() {
  double sent = 0, received = 0;  // seconds, of what was not yet known to be under way
  bool known = false;             // that something was
  for (const auto& operation : active_) {
    const auto meet = [&](Direction& direction, double& seconds) {
      for (Message& message : direction.messages) {
        if (message.missing == 0) continue;
        const Message::Met met =
            peers_.posted(*operation->channel, message.peer) > operation->sequence
                ? Message::Met::yes
            : peers_.answers(message.peer) ? Message::Met::no
                                           : Message::Met::perhaps;
        known = known || (met != Message::Met::no && met <= message.met);
        if (met <= message.met) continue;
        seconds += longest_seconds(message);
        message.met = met;
      }
    };
    meet(operation->sends, sent);
    meet(operation->recvs, received);
  }
  const std::int64_t now = steady_now();
  moving_until_ =
      (known ? std::max(moving_until_, now) : now) + nanoseconds(std::max(sent, received));
  return now < moving_until_;
}

double Engine::longest_seconds(const Message& message) const {
  const bool on_node = world_->places[message.peer].node == world_->places[rank_].node;
  return static_cast<double>(message.slice.bytes()) / (on_node ? kSlowestMemory : kSlowestNetwork);
}

std::optional<Error> Engine::hopeless(const Waiting& waiting, double longest, Patience& patience,
                                      const Predicate& over) {
  int returned = -1;
  for (const int peer : waiting.peers) {
    const std::string lost = wire_->lost(peer);
    if (!lost.empty()) return blame_gone(peers_, rank_, waiting, peer, "is gone: " + lost);
    if (returned < 0 && waiting.group && peers_.returned(peer)) returned = peer;
    peers_.pass_on(peer);
  }
  if (patience.seconds_since_return(returned) > kLastSent)
    return blame_gone(peers_, rank_, waiting, returned);
  peers_.ask(waiting.peers, waiting.group.get());
  if (patience.heartbeats.seconds_since_change(heartbeat_of(waiting)) > longest &&
      had_its_chance(waiting, over))
    return blame(peers_, rank_, waiting, options_.deadline);
  return {};
}

// All of them are needed: the oldest counts.
std::int64_t Engine::heartbeat_of(const Waiting& waiting) const {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (const int peer : waiting.peers) oldest = std::min(oldest, peers_.heartbeat(peer));
  return oldest;
}

// On a busy machine a live peer may not get to run for a whole deadline. So before giving up,
// compete with it for a core: once this thread has run for a moment, so has the peer. Meanwhile all
// ranks are asked what they have posted and wait for, to find out whom to blame.
bool Engine::had_its_chance(const Waiting& waiting, const Predicate& over) {
  const std::int64_t heartbeat = heartbeat_of(waiting);
  const std::int64_t start = steady_now(), ran = diagnosis::thread_time();
  peers_.ask_all();
  for (;;) {
    progress();
    if (over() || peers_.failure() || heartbeat_of(waiting) != heartbeat) return false;
    const std::int64_t waited = steady_now() - start;
    const bool competed = diagnosis::thread_time() - ran > nanoseconds(kChance);
    const bool heard = peers_.all_answer() || waited > nanoseconds(kAnswer);
    if ((competed && heard) || waited > nanoseconds(kLastChance)) return true;
    std::this_thread::yield();
  }
}

std::optional<Error> Engine::end() {
  const bool has_rank = rank_ < options_.ranks;
  if (has_rank) peers_.set_returned(options_.debug.ledger);
  Patience patience;
  Idling idling(crowded_ || !has_rank, kIdleNap);
  std::int64_t leave_at = 0;  // 0: not yet to be left
  closed_ = true;             // nobody waits for what is in flight
  while (!peers_.finished() || !peers_.sent_all()) {
    try {
      progress();
      look_whether_all_have_ended(patience);
    } catch (const Error& error) {
      peers_.fail({error, error});
    }
    if (rank_ != 0 && peers_.blames(0) && peers_.sent_all()) break;  // it has no last word
    const bool ends = peers_.failure() || peers_.finished();
    if (ends && leave_at == 0)
      leave_at = steady_now() + nanoseconds(kFarewell + (rank_ == 0 ? 0 : kLastWord));
    if (leave_at > 0 && steady_now() > leave_at) {
      if (rank_ != 0 || peers_.finished()) break;
      peers_.finish();  // without those that have not come
    }
    idling.pause();
  }
  const auto failure = peers_.outcome();
  if (!failure) return {};
  if (has_rank) recorder_.dump(options_.flight_recorder, failure->thrown);
  return failure->thrown;
}

void Engine::look_whether_all_have_ended(Patience& patience) {
  const std::vector<int> missing = rank_ == 0 ? peers_.not_returned() : std::vector<int>{0};
  if (rank_ == 0 && missing.empty() && !peers_.finished()) peers_.finish();
  if (peers_.finished() || peers_.failure()) return;
  const std::int64_t now = steady_now();
  if (patience.ask_at == 0) patience.ask_at = now + question_interval(options_);
  if (now < patience.ask_at) return;
  patience.ask_at = now + question_interval(options_);
  const Waiting waiting{nullptr, -1, "end of the launch", missing};
  peers_.set_waiting(waiting);
  // Whoever waits for a message knows better what is wrong, and comes first.
  const auto error = hopeless(waiting, options_.deadline + kPrecedence, patience,
                              [&] { return peers_.finished(); });
  if (error) peers_.fail({*error, *error});
}

}  // namespace ringspan::comm::processes
