// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/device.hpp"
#include "comm/transports/threads/hub.hpp"

namespace ringspan::comm::threads {

/// For how long the ranks waited for have shown no progress, judged by their heartbeats.
class Patience {
 public:
  /// Seconds without progress. A pause of the caller longer than `longest` counts as that much: if
  /// it could not run, perhaps nobody could.
  double spent(std::int64_t heartbeat, double longest);

 private:
  std::int64_t heartbeat_ = -1;
  std::int64_t checked_ = 0;
  double spent_ = 0;
};

/// One rank's side of the transport, for all its groups; used by that rank's thread alone. Messages
/// are matched and copied here, by the receiver, whenever the rank waits, tests or polls.
class Engine {
 public:
  Engine(std::shared_ptr<Hub> hub, int rank);
  ~Engine();

  Hub& hub() { return *hub_; }
  int rank() const { return rank_; }
  Device& device() { return *device_; }
  const Traffic& traffic() const { return traffic_; }

  /// Queues a batch whose peers are world ranks and sends its messages off.
  void post(const std::shared_ptr<Batch>& batch);
  void wait(Batch& batch);
  bool test(Batch& batch, Patience& patience);
  void wait_sole_owner(const Buffer& buffer);

  /// The owner of the batch lets go of it: takes back what nobody has received. `unwinding`: an
  /// exception is the reason, and names the cause better if it reaches the launcher.
  void abandon(Batch& batch, bool unwinding);

  /// Throws the first failure of the world, if there is one.
  void throw_if_failed();
  void sleep_at_random();

 private:
  /// Messages of one peer in one group that wait for their other half, in order.
  struct Lane {
    std::deque<Letter> arrived, expected;
  };
  using Predicate = std::function<bool()>;

  Lane& lane(const Channel& channel, int peer) { return lanes_[{channel.id, peer}]; }
  void poll();
  void progress();
  void deliver(Lane& lane);
  bool receive(const Letter& arrived, const Letter& expected);
  void move_bytes(Outgoing& sent, Incoming& expected);
  void require_match(const Letter& arrived, const Letter& expected);
  void require_order(const Letter& arrived, const Letter& expected);
  [[noreturn]] void fail(const Error& cause);

  void block(const Predicate& done, const std::function<Waiting()>& waiting);
  bool spin(const Predicate& done, std::int64_t seen) const;
  void require_alive(const Waiting& waiting, Patience& patience, std::int64_t seen);
  double nap() const;

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  const std::unique_ptr<Device> device_;
  Traffic traffic_;
  std::map<std::pair<int, int>, Lane> lanes_;  // [channel, world rank of the peer]
  std::vector<Lane*> ready_;                   // lanes with both halves of a message
  std::vector<std::int64_t> sent_, awaited_;   // messages so far, [world rank of the peer]
  bool closed_ = false;                        // a batch was abandoned: nothing may be received
  std::string dropped_;                        // the cause to report at the next call
  std::mt19937_64 random_;
};

}  // namespace ringspan::comm::threads
