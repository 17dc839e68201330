// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/launch.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/diagnosis/first_failure.hpp"

namespace ringspan::comm::diagnosis {

/// A group, as those of its members see it who live in this process.
struct Channel : Group {
  Channel(std::int64_t number, std::vector<int> ranks)
      : Group(number, std::move(ranks)), posted(members.size()) {}

  std::vector<std::atomic<std::int64_t>> posted;  // operations so far, [rank of the group]
};

/// Where the ranks of one world tell each other how they are, without messages: they share memory.
/// A heartbeat is the time of a rank's last real progress.
class Hub : public Board {
 public:
  virtual const LaunchOptions& options() const = 0;
  virtual const std::shared_ptr<const World>& world() const = 0;
  /// Ranks outnumber the cores they may run on, so one that spins slows another.
  virtual bool crowded() const = 0;

  /// The group made by the `call`-th group() of a parent, which is the same for all its members;
  /// nobody waits for anybody.
  virtual std::shared_ptr<Channel> join(std::int64_t parent, std::int64_t call,
                                        const std::vector<int>& members) = 0;

  virtual void beat(int rank) = 0;
  virtual void pass_on(int rank, std::int64_t heartbeat) = 0;
  virtual void set_waiting(int rank, std::optional<Waiting> waiting) = 0;
  /// The rank's function has ended; whatever it sent is on its way.
  virtual void set_returned(int rank) = 0;
  /// `rank`, which has returned, waits until all have, or something has failed.
  virtual void await_returns(int rank) = 0;
  /// Its GPU touches memory of other ranks, or is about to, until it is set to false; and false
  /// once the rank is known to be gone, for the driver has ended what its process had queued.
  virtual void set_active(int rank, bool active) = 0;
  virtual bool active(int rank) const = 0;
  /// Why the rank is known to be gone; empty if nothing is known.
  virtual std::string lost(int) const { return ""; }

  /// Records the first failure, which ends all waits; later ones are dropped.
  virtual void fail(const Failure& failure) = 0;
  void fail(const Error& cause) { fail(Failure{cause, cause}); }
  virtual const FirstFailure& failure() const = 0;

  /// `events` counts what may end a wait of this rank, where that is known, so that it can look at
  /// it, check its own state and then sleep without missing anything.
  virtual std::int64_t events(int rank) const = 0;
  /// Until something has happened since `seen` was read, or `seconds` have passed.
  virtual void sleep(int rank, std::int64_t seen, double seconds) = 0;

 protected:
  /// Whether what a rank waited for at that look says nothing any more, for it may have fallen
  /// silent since. By the time at which somebody is to be blamed, half a deadline is long.
  bool outdated(std::int64_t looked_at) const {
    return looked_at > 0 && seconds_since(looked_at) > options().deadline / 2;
  }
};

}  // namespace ringspan::comm::diagnosis
