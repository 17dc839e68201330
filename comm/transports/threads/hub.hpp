// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/launch.hpp"
#include "comm/transports/threads/mailbox.hpp"

namespace ringspan::comm::threads {

/// Nanoseconds of a steady clock.
std::int64_t steady_now();

/// What a blocked rank waits for, published so that others can find out whom to blame.
struct Waiting {
  std::shared_ptr<const Channel> channel;  // null: for no operation of a group
  std::int64_t sequence = -1;
  std::string operation;
  std::vector<int> peers;  // world ranks
};

/// What the ranks of one world share: mailboxes, groups, heartbeats and the first failure.
///
/// Heartbeats: a rank's is the time of its last real progress; while it waits it passes on the
/// newest of those it waits for. A chain of waits behind a slow rank that progresses thus stays
/// fresh; in a cycle of waits no new time ever enters, and it goes stale.
class Hub {
 public:
  explicit Hub(const LaunchOptions& options);

  const LaunchOptions& options() const { return options_; }
  const std::shared_ptr<const World>& world() const { return world_; }
  int size() const { return options_.ranks; }
  /// Ranks outnumber the cores they may run on, so one that spins slows another.
  bool crowded() const { return crowded_; }
  Mailbox& mailbox(int rank) { return ranks_[rank].mailbox; }

  /// The group made by the `call`-th group() of a parent: one object for all its members, who need
  /// not wait for each other to get it.
  std::shared_ptr<Channel> join(int parent, std::int64_t call, const std::vector<int>& members);

  void beat(int rank);
  void pass_on(int rank, std::int64_t heartbeat);
  std::int64_t heartbeat(int rank) const { return ranks_[rank].heartbeat.load(); }

  void set_waiting(int rank, std::optional<Waiting> waiting);
  /// Empty if the rank does not wait.
  std::optional<Waiting> waiting(int rank) const;

  /// The rank's function has ended; whatever it sent is in the mailboxes.
  void set_returned(int rank);
  bool returned(int rank) const { return ranks_[rank].returned.load(); }

  /// Records the first cause and wakes everybody; later causes are dropped. `thrown` is what
  /// launch() throws, if a rank's own exception says more than what its peers are told.
  void fail(const Error& cause) { fail(cause, cause); }
  void fail(const Error& cause, const Error& thrown);
  bool failed() const { return failed_.load(); }
  [[noreturn]] void throw_failure(int rank) const;

  /// What to report when `rank` has waited in vain.
  Error blame(int rank, const Waiting& waiting) const;
  /// The same when `peer`, which it waits for, has returned.
  Error blame_returned(int rank, const Waiting& waiting, int peer) const;

  /// When all ranks have ended: throws the first failure, or what the ledger finds.
  void finish() const;

 private:
  struct alignas(64) Rank {
    Mailbox mailbox;
    std::atomic<std::int64_t> heartbeat{0};
    std::atomic<bool> returned{false};
    mutable std::mutex mutex;  // of `waiting`
    std::optional<Waiting> waiting;
  };
  struct Failure {
    Error cause, thrown;
  };

  int stalest(const Waiting& waiting) const;
  void require_equal_counts() const;

  const LaunchOptions options_;
  const bool crowded_;
  const std::shared_ptr<const World> world_;
  std::vector<Rank> ranks_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of what follows
  std::optional<Failure> failure_;
  std::map<std::tuple<int, std::int64_t, std::vector<int>>, std::shared_ptr<Channel>> channels_;
};

}  // namespace ringspan::comm::threads
