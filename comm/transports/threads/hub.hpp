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

/// What a blocked rank waits for, published for the diagnosis of others.
struct Waiting {
  std::shared_ptr<const Channel> channel;  // null: not for an operation of a group
  std::int64_t sequence = -1;
  std::string operation;
  std::vector<int> peers;  // world ranks
};

/// What the ranks of one world share: mailboxes, groups, heartbeats and the first failure.
///
/// Heartbeats: a rank's is the time of its last real progress; while it waits it passes on the
/// newest heartbeat of those it waits for. So a chain of waits behind a slow rank that progresses
/// stays fresh, while in a cycle of waits the newest value has no source and goes stale.
class Hub {
 public:
  explicit Hub(const LaunchOptions& options);

  const LaunchOptions& options() const { return options_; }
  const std::shared_ptr<const World>& world() const { return world_; }
  int size() const { return options_.ranks; }
  Mailbox& mailbox(int rank) { return ranks_[rank].mailbox; }

  /// The group made by the `call`-th group() of a parent, the same object for all its members.
  std::shared_ptr<Channel> join(int parent, std::int64_t call, const std::vector<int>& members);

  void beat(int rank);                             // real progress
  void pass_on(int rank, std::int64_t heartbeat);  // that of a peer waited for
  std::int64_t heartbeat(int rank) const { return ranks_[rank].heartbeat.load(); }

  void set_returned(int rank);
  bool returned(int rank) const { return ranks_[rank].returned.load(); }

  void set_waiting(int rank, std::optional<Waiting> waiting);
  std::optional<Waiting> waiting(int rank) const;

  /// Records the first cause and wakes everybody; later causes are dropped. `thrown`: what launch()
  /// throws in its place, where a rank's own exception says more than what its peers are told.
  void fail(const Error& cause) { fail(cause, cause); }
  void fail(const Error& cause, const Error& thrown);
  bool failed() const { return failed_.load(); }
  [[noreturn]] void throw_failure(int rank) const;

  /// What to tell when `rank` has waited in vain: follows the waits to the rank to blame.
  Error blame(int rank, const Waiting& waiting) const;
  /// The same when `peer`, which it needs, has returned.
  Error blame_returned(int rank, const Waiting& waiting, int peer) const;

  /// When all ranks have ended: throws the first failure, or what the ledger finds.
  void finish() const;

 private:
  struct alignas(64) Rank {
    Mailbox mailbox;
    std::atomic<std::int64_t> heartbeat{0};
    std::atomic<bool> returned{false};
    mutable std::mutex mutex;
    std::optional<Waiting> waiting;
  };
  struct Failure {
    Error cause, thrown;
  };

  int stalest(const Waiting& waiting) const;
  void check_operation_counts() const;

  const LaunchOptions options_;
  std::shared_ptr<const World> world_;
  std::vector<Rank> ranks_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of what follows
  std::optional<Failure> failure_;
  std::map<std::tuple<int, std::int64_t, std::vector<int>>, std::shared_ptr<Channel>> channels_;
};

/// Nanoseconds of a steady clock.
std::int64_t steady_now();

}  // namespace ringspan::comm::threads
