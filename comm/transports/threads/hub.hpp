// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "comm/launch.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/diagnosis/hub.hpp"
#include "comm/transports/threads/mailbox.hpp"

namespace ringspan::comm::threads {

using diagnosis::steady_now;
using diagnosis::Waiting;

/// What the ranks of one world share: mailboxes, groups, heartbeats and the first failure.
class Hub final : public diagnosis::Hub {
 public:
  explicit Hub(const LaunchOptions& options);

  const LaunchOptions& options() const override { return options_; }
  const std::shared_ptr<const World>& world() const override { return world_; }
  int size() const override { return options_.ranks; }
  bool crowded() const override { return crowded_; }
  Mailbox& mailbox(int rank) { return ranks_[rank].mailbox; }

  /// One object for all members.
  std::shared_ptr<Channel> join(std::int64_t parent, std::int64_t call,
                                const std::vector<int>& members) override;

  void beat(int rank) override;
  void pass_on(int rank, std::int64_t heartbeat) override;
  std::int64_t heartbeat(int rank) const override { return ranks_[rank].heartbeat.load(); }

  void set_waiting(int rank, std::optional<Waiting> waiting) override;
  std::optional<Waiting> waiting(int rank) const override;
  std::int64_t posted(const diagnosis::Group& group, int rank) const override;
  bool answers(int) const override { return true; }

  void set_returned(int rank) override;
  void await_returns(int rank) override;
  bool returned(int rank) const override { return ranks_[rank].returned.load(); }
  void set_active(int rank, bool active) override { ranks_[rank].active = active; }
  bool active(int rank) const override { return ranks_[rank].active; }

  using diagnosis::Hub::fail;
  void fail(const diagnosis::Failure& failure) override;
  const diagnosis::FirstFailure& failure() const override { return failure_; }

  std::int64_t events(int rank) const override { return ranks_[rank].mailbox.events(); }
  void sleep(int rank, std::int64_t seen, double seconds) override {
    mailbox(rank).sleep(seen, seconds);
  }

  // Who may hold a buffer that a rank waits to own alone.
  void sent(const Buffer& buffer, int to);
  void reclaimed(const Buffer& buffer);
  std::vector<int> holders(const Buffer& buffer) const;

  /// When all ranks have ended: the first failure, or what the ledger finds.
  std::optional<Error> outcome() const;

 private:
  struct alignas(64) Rank {
    Mailbox mailbox;
    std::atomic<std::int64_t> heartbeat{0};
    std::atomic<bool> returned{false}, active{false};
    mutable std::mutex mutex;  // of `waiting`
    std::optional<Waiting> waiting;
  };

  const LaunchOptions options_;
  const bool crowded_;
  const std::shared_ptr<const World> world_;
  std::vector<Rank> ranks_;
  diagnosis::FirstFailure failure_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::tuple<std::int64_t, std::int64_t, std::vector<int>>, std::shared_ptr<Channel>>
      channels_;
  mutable std::mutex sent_mutex_;
  // World ranks, by the address of what went to them by reference and has not been reclaimed. What
  // is freed without that leaves them to the next buffer there, until it is first reclaimed.
  std::unordered_map<const std::byte*, std::set<int>> sent_;
};

/// Runs `body` once per rank, each in a thread of its own, and returns when all have ended. A
/// thread that does not start is a failure of the world.
void run_each(diagnosis::Hub& hub, const std::function<void(int rank)>& body);

}  // namespace ringspan::comm::threads
