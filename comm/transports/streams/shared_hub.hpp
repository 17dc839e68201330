// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/transports/diagnosis/hub.hpp"
#include "comm/transports/processes/notice.hpp"
#include "comm/transports/processes/watched_process.hpp"
#include "comm/transports/streams/machines.hpp"
#include "comm/transports/streams/shared_memory.hpp"

namespace ringspan::comm::streams {

/// The `call`-th group() of a group, by the parent's number on a machine.
struct GroupName {
  std::int64_t parent = 0, call = 0;
};

/// How a process is, as other machines are told.
struct ProcessState {
  static constexpr std::int64_t kCutOff = -1;

  int process = 0;
  std::uint32_t returned = 0, active = 0, ended = 0, left = 0;
  std::int64_t gone = 0;  // its id once it has ended; kCutOff: the connection to it has
  std::int64_t heartbeat = 0;
};

/// The same with what it waits for and has posted.
struct Report {
  ProcessState state;
  std::vector<std::byte> status;          // a notice; empty: no new one
  std::vector<processes::Posted> posted;  // by the numbers of groups on a machine
};

/// The hub of ranks that are processes, as one of them sees it: memory that those of its machine
/// share. What a relay hears of other machines is there, too. A heartbeat is a count that rises
/// above all that the machine has heard of, so that no common clock is needed.
class SharedHub final : public diagnosis::Hub {
 public:
  static std::size_t bytes(int processes);
  /// In that much memory, zero before start(), which one of those that share it calls once.
  SharedHub(std::unique_ptr<const SharedMemory> memory, const LaunchOptions& options,
            std::shared_ptr<const World> world, bool crowded, int process, Machines machines);
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
  /// False while nothing is heard of its machine, or of any by the relay of this one.
  bool answers(int rank) const override;
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

  // For the relay, on a thread of the machine's first process (shared_hub_relay.cpp).
  const Machines& machines() const { return machines_; }
  /// The relay has a turn; it has heard of another machine.
  void turn();
  void hear(int machine);
  /// Changes when others are to be told of a process at once.
  std::uint64_t state(int process) const;
  Report report(int process) const;
  /// Of a process of another machine, in this one's numbers of groups.
  void mirror(const Report& report);
  /// All groups from that number on, and the number of one.
  std::vector<GroupName> groups(std::uint32_t first) const;
  std::uint32_t number_of(const GroupName& name);
  /// Empty if nothing has failed, or a process is stopped that is about to write.
  std::vector<std::byte> failure_notice() const;
  /// Another machine has failed. `decides`: launch() is to throw this, whatever came first here.
  /// False if a process is stopped that is about to write: to be called again.
  bool fail(const std::vector<std::byte>& notice, bool decides);
  /// The connection to a machine has ended: those who have not left it are gone.
  void cut_off(int machine);

 private:
  struct Header;
  struct Member;

  Header& header() const;
  Member& member(int process) const;
  std::string ended(int process) const;
  bool relayed() const;
  bool is_there(int process) const;
  int silent(int rank, double seconds) const;
  void require_relay();
  void require_word();
  bool all_returned() const;
  void require_equal_counts();
  int awaited(std::uint32_t Member::*reached) const;
  void wait_for_all(std::uint32_t Member::*reached);

  const std::unique_ptr<const SharedMemory> memory_;
  const LaunchOptions options_;
  const std::shared_ptr<const World> world_;
  const bool crowded_;
  const int process_, processes_;
  const Machines machines_;
  // [process]; the own one's, and all before watch(), are null
  std::vector<std::unique_ptr<const processes::WatchedProcess>> watched_;
  mutable diagnosis::FirstFailure failure_;
  mutable std::mutex mutex_;  // of the channels
  std::map<std::int64_t, std::shared_ptr<diagnosis::Channel>> channels_;
};

}  // namespace ringspan::comm::streams
