// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "comm/device.hpp"
#include "comm/transports/diagnosis/flight_recorder.hpp"
#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/threads/hub.hpp"

namespace ringspan::comm::threads {

/// One rank's side of the transport, for all its groups; used by that rank's thread alone. It
/// matches what arrives with what it expects, and copies, whenever the rank waits, tests or polls.
class Engine {
 public:
  using Patience = diagnosis::Patience;

  Engine(std::shared_ptr<Hub> hub, int rank);
  ~Engine();

  Hub& hub() const { return *hub_; }
  int rank() const { return rank_; }
  Device& device() const { return *device_; }
  const Traffic& traffic() const { return traffic_; }

  void post(const std::shared_ptr<Operation>& operation);
  void wait(Operation& operation);
  bool test(Operation& operation, Patience& patience);
  void wait_for_sole_owner(const Buffer& buffer);

  /// Takes back what nobody has received of an operation that will not be waited for. `unwinding`:
  /// because of an exception, which names the cause better if it gets as far as the launcher.
  void abandon(Operation& operation, bool unwinding);

  /// Throws the first failure of the world, if there is one.
  void require_working();
  diagnosis::FlightRecorder& recorder() { return recorder_; }
  void delay_for_debugging();

 private:
  /// Messages of one peer in one group that wait for their other half, in order.
  struct Lane {
    std::deque<Letter> arrived, expected;
  };
  using Predicate = std::function<bool()>;

  Lane& lane(const Channel& channel, int peer) { return lanes_[{channel.id, peer}]; }
  void send(const Letter& letter);
  void record(Operation& operation);
  void poll();
  void progress();
  void match(Lane& lane);
  bool receive(const Letter& arrived, const Letter& expected);
  void move_bytes(const Letter& arrived, const Letter& expected);

  // ledger.cpp
  void require_agreement(const Letter& arrived, const Letter& expected);
  void require_order(const Letter& arrived, const Letter& expected);
  std::optional<diagnosis::Half> expecting(int peer, std::int64_t number) const;
  [[noreturn]] void fail(const Error& cause);

  // wait.cpp
  void finish(const Operation& operation);
  void block(const Predicate& done, const std::function<Waiting()>& waiting);
  bool spin(const Predicate& done, std::int64_t seen) const;
  void require_alive(const Waiting& waiting, Patience& patience, std::int64_t seen);
  std::int64_t heartbeat_of(const Waiting& waiting) const;
  double nap() const;

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  const std::unique_ptr<Device> device_;
  Traffic traffic_;
  diagnosis::FlightRecorder recorder_;
  std::map<std::pair<std::int64_t, int>, Lane> lanes_;  // [channel, world rank of the peer]
  std::vector<Lane*> ready_;                  // lanes that may hold both halves of a message
  std::vector<std::int64_t> sent_, awaited_;  // messages so far, [world rank of the peer]
  bool closed_ = false;           // an operation was abandoned: receive nothing into its buffers
  std::optional<Error> dropped_;  // to be reported at the next call
  std::mt19937_64 random_;
};

}  // namespace ringspan::comm::threads
