// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/transports/diagnosis/flight_recorder.hpp"
#include "comm/transports/simulated/compute_queue.hpp"
#include "comm/transports/simulated/memory.hpp"
#include "comm/transports/simulated/noise.hpp"
#include "comm/transports/simulated/transfer.hpp"

namespace ringspan::comm::simulated {

class Simulation;

/// One rank: a host that issues operations, each of which takes it a moment, and a GPU that carries
/// them out behind it. The host runs ahead in its own time, which the clock may have reached or
/// not; it stops only in synchronize, in test, and where its GPU falls too far behind. What one
/// rank queues runs in order; messages only order the queue where it waits for them.
class Engine {
 public:
  /// For how long a rank has tested in vain.
  struct Patience {
    std::int64_t heartbeat = -1;  // of those it waits for, and when it last changed
    double changed_at = 0;
  };

  Engine(std::shared_ptr<Simulation> simulation, int rank);
  ~Engine();

  int rank() const { return rank_; }
  Device& device() const { return *device_; }
  Memory& memory() { return memory_; }
  Simulation& simulation() const { return *simulation_; }
  ComputeQueue& compute_queue() { return compute_queue_; }
  const Traffic& traffic() const { return traffic_; }
  double host_time() const;  // seconds since the launch
  double queued_seconds() const { return queued_seconds_; }

  /// Peers are ranks of the channel.
  std::shared_ptr<Operation> post(std::shared_ptr<const Title> title, std::span<Send> sends,
                                  std::span<Recv> recvs);
  void wait(Operation& operation);
  bool test(Operation& operation, Patience& patience);
  void abandon(Operation& operation, bool unwinding);

  void compute(double seconds, std::string_view kernel);
  void synchronize();

  /// Throws the first failure of the world, if there is one.
  void require_working();
  void wake();  // called back only
  void progressed();
  void received(std::int64_t bytes) { traffic_.bytes_copied += bytes; }
  double message_noise() { return message_noise_.factor(); }
  /// When a message that could start now does, a gap after the last one of its kind.
  double inject(bool between_nodes, double gap_seconds);

  std::int64_t heartbeat() const { return heartbeat_; }
  std::optional<diagnosis::Waiting> waiting() const;
  std::optional<diagnosis::FlightRecorder>& recorder() { return recorder_; }

 private:
  class Kernel;
  class Join;
  class Wake;

  double issue();
  void make_room();
  void enqueue(const std::shared_ptr<Event>& event);  // behind all that is queued
  void finished(int operations);
  void block(const std::shared_ptr<Event>& event);
  void suspend_until(const std::shared_ptr<Event>& event);
  std::shared_ptr<Transfer> other_half(Channel& channel, int from, int to, bool sending);
  void add(Operation& operation, bool sending, int peer, Slice slice, double not_before);
  void count(int to, std::int64_t bytes);
  void record(Operation& operation);
  void require_alive(const Operation& operation, Patience& patience);
  [[noreturn]] void fail(const Error& cause);

  // ledger.cpp
  std::int64_t number(bool sending, int peer);
  void require_agreement(const Transfer& transfer);
  std::optional<diagnosis::Half> expecting(const End& sender) const;

  const std::shared_ptr<Simulation> simulation_;  // lets go of its engines in the end
  const int rank_;
  Memory memory_;
  ComputeQueue compute_queue_;
  Noise kernel_noise_, message_noise_;
  const std::unique_ptr<Device> device_;
  const int most_at_once_;  // kernels that are one event: fewer events, same times; traced: one
  Traffic traffic_;
  std::optional<diagnosis::FlightRecorder> recorder_;  // if it is to be dumped
  double host_time_;                                   // of the clock; when the host is free again
  double queued_seconds_ = 0;                          // of kernels, as long as nothing slows them
  std::shared_ptr<Event> tail_;                        // of the compute queue
  Kernel* last_kernel_ = nullptr;                      // the tail, if that is one
  double idle_since_ = 0;                              // when the last of the queue ended
  std::deque<std::shared_ptr<Event>> queued_;       // of the compute queue; the first may be done
  std::int64_t issued_ = 0, done_ = 0;              // operations of the compute queue so far
  std::vector<double> done_at_;                     // the last of them, by the clock
  std::deque<std::shared_ptr<Operation>> awaited_;  // waited for, may be done
  std::vector<std::int64_t> sent_, expected_;       // messages so far, [world rank], for the ledger
  double next_injection_[2] = {};                   // of messages in the node, between nodes
  bool blocked_ = false;
  std::int64_t heartbeat_ = 0;    // nanoseconds of the clock
  std::optional<Error> dropped_;  // to be reported at the next call
};

/// Where modelled kernels run and tensors have no storage.
std::unique_ptr<Device> make_simulated_device(Engine& engine);

}  // namespace ringspan::comm::simulated
