// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "comm/launch.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/first_failure.hpp"
#include "comm/transports/simulated/engine.hpp"
#include "comm/transports/simulated/flows.hpp"
#include "comm/transports/simulated/platform.hpp"
#include "comm/transports/simulated/transfer.hpp"

namespace ringspan::comm::simulated {

/// What the ranks of one launch share. One thread runs all of them in turns, so nothing is locked.
class Simulation final : public diagnosis::Board, public std::enable_shared_from_this<Simulation> {
 public:
  explicit Simulation(const LaunchOptions& options);

  /// Runs the function once per rank; throws the first failure, or what the ledger finds.
  void run(const RankFunction& body);

  const LaunchOptions& options() const { return options_; }
  const Cluster& cluster() const { return *options_.cluster; }
  const std::shared_ptr<const World>& world() const { return world_; }
  const Place& place(int rank) const { return world_->places[rank]; }
  Platform& platform() const { return platform_; }
  Flows& flows() { return flows_; }
  double start() const { return start_; }                  // of the launch, by the clock
  double now() const { return platform_.now() - start_; }  // since then
  void trace(const TraceSpan& span) const {
    if (options_.trace) options_.trace(span);
  }

  using Channels =
      std::map<std::tuple<std::int64_t, std::int64_t, std::vector<int>>, std::shared_ptr<Channel>>;
  const Channels& channels() const { return channels_; }

  /// The group made by the `call`-th group() of a parent: one object for all its members.
  std::shared_ptr<Channel> join(std::int64_t parent, std::int64_t call,
                                const std::vector<int>& members);

  /// False once all that happens in it is over: whoever outlives it must have nothing called back,
  /// for the platform goes on to the next.
  bool running() const { return !engines_.empty(); }

  /// Records the first failure and wakes everybody; later ones are dropped.
  void fail(const Error& cause) { fail({cause, cause}); }
  void fail(const diagnosis::Failure& failure);
  const diagnosis::FirstFailure& failure() const { return failure_; }

  int size() const override { return options_.ranks; }
  std::int64_t heartbeat(int rank) const override { return engines_[rank]->heartbeat(); }
  std::optional<diagnosis::Waiting> waiting(int rank) const override;
  std::int64_t posted(const diagnosis::Group& group, int rank) const override;
  bool returned(int rank) const override { return returned_[rank]; }
  bool answers(int) const override { return true; }

 private:
  void run_rank(int rank, const RankFunction& body);
  void blame_deadlock();
  void wake_all_soon();
  void wake_all();
  /// When all ranks have ended: the first failure, or what the ledger finds.
  std::optional<Error> outcome() const;

  const LaunchOptions options_;
  const std::shared_ptr<const World> world_;
  Platform& platform_;
  Flows flows_;
  const double start_;
  Channels channels_;
  std::vector<std::shared_ptr<Engine>> engines_;  // [rank]
  std::vector<bool> returned_;                    // [rank]
  diagnosis::FirstFailure failure_;
  bool waking_ = false;  // because of the failure
};

}  // namespace ringspan::comm::simulated
