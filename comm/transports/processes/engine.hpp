// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "comm/device.hpp"
#include "comm/launch.hpp"
#include "comm/transports/diagnosis/flight_recorder.hpp"
#include "comm/transports/processes/gpu_side.hpp"
#include "comm/transports/processes/patience.hpp"
#include "comm/transports/processes/peers.hpp"
#include "comm/transports/processes/staging.hpp"

namespace ringspan::comm::processes {

/// One rank's side of a transport across processes, for all its groups; used by that rank's thread
/// alone, but for abort(). It cuts messages into what the wire can carry and moves them whenever
/// the rank posts, waits, tests or polls.
class Engine {
 public:
  using Patience = processes::Patience;

  Engine(std::shared_ptr<Wire> wire, const LaunchOptions& options,
         std::shared_ptr<const World> world, bool crowded, std::unique_ptr<Device> device);
  ~Engine();

  int rank() const { return rank_; }
  Device& device() const { return *device_; }
  const World& world() const { return *world_; }
  const Traffic& traffic() const { return traffic_; }

  /// Takes the slices over. Messages of the engine's own are not counted as traffic.
  std::shared_ptr<Operation> post(const std::shared_ptr<Channel>& channel, std::string_view name,
                                  std::span<Send> sends, std::span<Recv> recvs,
                                  bool counted = true);
  void wait(Operation& operation);
  bool test(Operation& operation, Patience& patience);

  /// What this rank has not used for a channel yet; the members of a new group agree on the
  /// largest.
  std::int64_t next_channel() const { return next_channel_; }
  /// A channel of that number for `members` (of the world), of whom this rank is number `own`.
  std::shared_ptr<Channel> join(std::int64_t id, std::vector<int> members, int own);
  Buffer stage(std::int64_t bytes) { return gpu_ ? gpu_->take(bytes) : staging_.take(bytes); }

  /// Gives up an operation that will not be waited for. `unwinding`: because of an exception, which
  /// names the cause better if it gets as far as the launcher.
  void abandon(Operation& operation, bool unwinding);

  /// Throws the first failure of the world, if there is one.
  void require_working();
  void delay_for_debugging();

  /// From any thread. It is told to the others when this rank next looks.
  void fail(const diagnosis::Failure& failure) { peers_.fail(failure); }

  /// The rank's function has ended: waits until all have, and returns what the launch fails with.
  std::optional<Error> end();

 private:
  // post.cpp
  std::shared_ptr<Operation> blank_operation();
  void count(const Message& message);
  void record(Operation& operation);
  void prepare(Operation& operation);
  bool ready(Operation& operation);
  void start_queued();
  void start(Operation& operation);
  void add_headers(Direction& direction);
  bool direct(const Slice& slice) const;
  void start_receive(Operation& operation, Message& message);
  void start_send(Operation& operation, Message& message);
  template <typename Start>
  void cut(Direction& direction, Message& message, Start start);

  // engine.cpp
  void poll();
  void wait_for_gpu(const std::function<bool()>& done, double deadline);
  void progress();
  void retire();
  void advance(Operation& operation, bool thoroughly);
  void complete(Operation& operation, const Direction& direction, Part& part);
  void deliver(const Operation& operation, const Message& message);
  void finish(const Operation& operation);
  bool let_go(Operation& operation);
  [[noreturn]] void give_up(Operation& operation, const Error& cause);
  [[noreturn]] void fail_with(const Error& cause);

  // ledger.cpp
  void require_agreement(const Operation& operation, const Part& part);
  void require_header(const Operation& operation, const Message& message);
  std::optional<diagnosis::Half> expecting(int peer, std::int64_t number) const;

  // wait.cpp
  using Predicate = std::function<bool()>;
  void block(Operation& operation);
  void require_hope(Operation& operation, Patience& patience);
  std::optional<Error> hopeless(const diagnosis::Waiting& waiting, double longest,
                                Patience& patience, const Predicate& over);
  double seconds_under_way() const;
  bool had_its_chance(const diagnosis::Waiting& waiting, const Predicate& over);
  std::int64_t heartbeat_of(const diagnosis::Waiting& waiting) const;
  void look_whether_all_have_ended(Patience& patience);

  const std::shared_ptr<Wire> wire_;
  const LaunchOptions options_;
  const std::shared_ptr<const World> world_;
  const int rank_;
  const bool crowded_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<GpuSide> gpu_;  // null: the device is the host
  Peers peers_;
  Staging staging_;
  Traffic traffic_;
  diagnosis::FlightRecorder recorder_;
  std::int64_t next_channel_ = 1;  // 0: the world's
  std::vector<std::shared_ptr<Operation>> active_, abandoned_, ended_;
  std::vector<std::int64_t> sent_, awaited_;  // messages so far, [process]
  bool closed_ = false;                       // an operation was abandoned: complete no other
  std::optional<Error> dropped_;              // to be reported at the next call
  std::mt19937_64 random_;
};

}  // namespace ringspan::comm::processes
