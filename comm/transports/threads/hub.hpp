// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "comm/launch.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/diagnosis/first_failure.hpp"
#include "comm/transports/threads/mailbox.hpp"

namespace ringspan::comm::threads {

using diagnosis::steady_now;
using diagnosis::Waiting;

/// What the ranks of one world share: mailboxes, groups, heartbeats and the first failure. A
/// heartbeat is the time of a rank's last real progress.
class Hub final : public diagnosis::Board {
 public:
  explicit Hub(const LaunchOptions& options);

  const LaunchOptions& options() const { return options_; }
  const std::shared_ptr<const World>& world() const { return world_; }
  int size() const override { return options_.ranks; }
  /// Ranks outnumber the cores they may run on, so one that spins slows another.
  bool crowded() const { return crowded_; }
  Mailbox& mailbox(int rank) { return ranks_[rank].mailbox; }

  /// The group made by the `call`-th group() of a parent: one object for all its members, who need
  /// not wait for each other to get it.
  std::shared_ptr<Channel> join(int parent, std::int64_t call, const std::vector<int>& members);

  void beat(int rank);
  void pass_on(int rank, std::int64_t heartbeat);
  std::int64_t heartbeat(int rank) const override { return ranks_[rank].heartbeat.load(); }

  void set_waiting(int rank, std::optional<Waiting> waiting);
  std::optional<Waiting> waiting(int rank) const override;
  std::int64_t posted(const diagnosis::Group& group, int rank) const override;
  bool answers(int) const override { return true; }

  /// The rank's function has ended; whatever it sent is in the mailboxes.
  void set_returned(int rank);
  bool returned(int rank) const override { return ranks_[rank].returned.load(); }

  /// Records the first failure and wakes everybody; later ones are dropped.
  void fail(const Error& cause) { fail({cause, cause}); }
  void fail(const diagnosis::Failure& failure);
  const diagnosis::FirstFailure& failure() const { return failure_; }

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

  void require_equal_counts() const;

  const LaunchOptions options_;
  const bool crowded_;
  const std::shared_ptr<const World> world_;
  std::vector<Rank> ranks_;
  diagnosis::FirstFailure failure_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::tuple<int, std::int64_t, std::vector<int>>, std::shared_ptr<Channel>> channels_;
};

/// Runs `body` once per rank, each in a thread of its own, and returns when all have ended. A
/// thread that does not start is a failure of the world.
void run_each(Hub& hub, const std::function<void(int rank)>& body);

}  // namespace ringspan::comm::threads
