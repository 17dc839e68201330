// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/transports/diagnosis/hub.hpp"
#include "comm/transports/processes/watched_process.hpp"
#include "comm/transports/streams/shared_memory.hpp"

namespace ringspan::comm::streams {

/// The hub of ranks that are processes of one machine, as one of them sees it.
class SharedHub final : public diagnosis::Hub {
 public:
  static std::size_t bytes(int processes);
  /// In that much memory, zero before start(), which one of those that share it calls once.
  SharedHub(std::unique_ptr<const SharedMemory> memory, const LaunchOptions& options,
            std::shared_ptr<const World> world, bool crowded, int process, int processes);
  void start();
  /// From then on it is noticed if the process of a rank ends. Called by each process for itself,
  /// and before any is looked at.
  void enter();
  void watch();
  /// Of those that are watched.
  const processes::WatchedProcess& watched(int process) const { return *watched_[process]; }

  const LaunchOptions& options() const override { return options_; }
  const std::shared_ptr<const World>& world() const override { return world_; }
  int size() const override { return options_.ranks; }
  bool crowded() const override { return crowded_; }
  std::shared_ptr<diagnosis::Channel> join(std::int64_t parent, std::int64_t call,
                                           const std::vector<int>& members) override;

  void beat(int rank) override;
  void pass_on(int rank, std::int64_t heartbeat) override;
  std::int64_t heartbeat(int rank) const override;
  void set_waiting(int rank, std::optional<diagnosis::Waiting> waiting) override;
  std::optional<diagnosis::Waiting> waiting(int rank) const override;
  std::int64_t posted(const diagnosis::Group& group, int rank) const override;
  bool answers(int) const override { return true; }
  void set_returned(int rank) override;
  void await_returns(int rank) override;
  bool returned(int rank) const override;
  void set_active(int rank, bool active) override;
  bool active(int rank) const override;
  std::string lost(int rank) const override;

  using diagnosis::Hub::fail;
  void fail(const diagnosis::Failure& failure) override;
  const diagnosis::FirstFailure& failure() const override;

  std::int64_t events(int) const override { return 0; }  // nobody rings
  void sleep(int rank, std::int64_t seen, double seconds) override;

  /// This process has nothing more to do. Returns, or throws the first failure, when that is so of
  /// all, or the rest is gone, or the deadline passes after a failure.
  void leave();

 private:
  struct Header;
  struct Member;

  Header& header() const;
  Member& member(int process) const;
  void require_equal_counts();
  bool all_have(std::uint32_t Member::*reached) const;
  void wait_for_all(std::uint32_t Member::*reached);

  const std::unique_ptr<const SharedMemory> memory_;
  const LaunchOptions options_;
  const std::shared_ptr<const World> world_;
  const bool crowded_;
  const int process_, processes_;
  // [process]; the own one's, and all before watch(), are null
  std::vector<std::unique_ptr<const processes::WatchedProcess>> watched_;
  mutable diagnosis::FirstFailure failure_;
  mutable std::mutex mutex_;  // of the channels
  std::map<std::int64_t, std::shared_ptr<diagnosis::Channel>> channels_;
};

}  // namespace ringspan::comm::streams
