// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "comm/devices/cuda/device.hpp"
#include "comm/transports/diagnosis/flight_recorder.hpp"
#include "comm/transports/diagnosis/hub.hpp"
#include "comm/transports/streams/connection.hpp"
#include "comm/transports/streams/operation.hpp"

namespace ringspan::comm::streams {

/// One rank's side of the transport, for all its groups; used by that rank's thread alone, but for
/// interrupt(). It queues messages on one transfer stream, behind the compute stream as it is when
/// they are posted, and puts the compute stream behind them when they are waited for.
class Engine {
 public:
  using Patience = diagnosis::Patience;

  /// The connection stays where it is if this throws.
  Engine(std::shared_ptr<diagnosis::Hub> hub, int rank, const std::shared_ptr<const cuda::Gpu>& gpu,
         std::unique_ptr<Connection>&& connection);
  ~Engine();

  diagnosis::Hub& hub() const { return *hub_; }
  int rank() const { return rank_; }
  const cuda::Gpu& gpu() const { return *gpu_; }
  Device& device() { return device_; }
  const Traffic& traffic() const { return traffic_; }
  diagnosis::FlightRecorder& recorder() { return recorder_; }

  /// Returns when all ranks are connected.
  void connect();

  std::shared_ptr<Operation> post(const std::shared_ptr<Channel>& channel, std::int64_t sequence,
                                  std::string_view name, std::span<Send> sends,
                                  std::span<Recv> recvs);
  void wait(Operation& operation);
  bool test(Operation& operation, Patience& patience);

  /// Poisons the world for an operation that will not be waited for. `unwinding`: because of an
  /// exception, which names the cause better if it gets as far as the launcher.
  void abandon(Operation& operation, bool unwinding);

  /// Throws the first failure of the world, if there is one.
  void require_working();
  /// Throws invalid_argument where a graph is captured that cannot hold these messages.
  void require_room_in_graph(std::string_view operation, std::int64_t sequence,
                             std::span<const Send> sends, std::span<const Recv> recvs);
  /// Throws invalid_argument where a graph is captured, and for an operation of one.
  void require_not_in_graph(const Operation& operation);
  /// Throws invalid_argument unless it was posted where the same graph is captured, if one is.
  void require_same_graph(const Operation& operation);
  /// Throws not_available if these are more messages than a lane takes at once.
  void require_room(std::string_view operation, std::span<const Send> sends,
                    std::span<const Recv> recvs) const;
  void delay_for_debugging();

  /// The rank's function has ended: waits for what is queued, and throws what has failed there.
  void finish();
  /// Waits for the other ranks to end, too, and ends the communicator. Afterwards no call is made
  /// but quiet() and interrupt(); what a GPU that is not quiet may still use lives as long as this.
  void close();

  /// Nothing of this rank is queued, and no other touches its memory. From any thread.
  bool quiet() const { return !busy() && nobody_active(); }

  /// After a failure of the world, from any thread: what is queued on the GPU ends, so that
  /// whoever waits for it by other means returns. Otherwise reports what has failed on the GPU, and
  /// who is gone.
  void interrupt();

 private:
  using Predicate = std::function<bool()>;
  using Operations = std::vector<std::shared_ptr<Operation>>;

  void take_over(Operation& operation, std::span<Send> sends, std::span<Recv> recvs);
  void keep(Operation& operation, const Slice& slice) const;
  void announce(Operation& operation);
  void count(const Operation& operation);
  void queue(Operation& operation);
  cuda::Timeline::Mark mark(const cuda::Stream& stream) const;
  void poll();
  void retire();

  // capture.cpp
  cuda::CudaDevice::Capture capture();
  bool capturing(std::string_view operation, std::int64_t sequence);
  void launch(const Operations& operations, cuda::Executable& executable);
  void post_again(const std::shared_ptr<Operation>& operation, Operation& all);
  void queue(Operation& all, cuda::Executable& executable);
  void let_go_of_graphs();

  // wait.cpp
  void block(const Predicate& done, double deadline);
  void look_until(const Predicate& done, double deadline);
  diagnosis::Waiting waiting() const;
  std::vector<int> not_connected() const;
  const Operation* oldest() const;
  bool lacks(const Operation& operation, int peer) const;
  void require_alive(const diagnosis::Waiting& waiting, Patience& patience, double deadline);
  std::int64_t heartbeat_of(const diagnosis::Waiting& waiting) const;
  [[noreturn]] void fail(const Error& cause);
  std::optional<Error> who_is_gone() const;
  void notice_who_is_gone();
  void await_name(const Error& error);
  [[noreturn]] void report(const Error& error, std::string_view operation, std::int64_t sequence);
  void require_process(int peer);

  /// What CUDA or the connection throws while the call runs poisons the world, with this rank to
  /// blame. No operation (-1): the oldest one.
  template <typename Call>
  auto watched(std::string_view operation, std::int64_t sequence, const Call& call)
      -> decltype(call()) {
    try {
      return call();
    } catch (const Error& error) {
      report(error, operation, sequence);
    }
  }

  bool busy() const;
  bool nobody_active() const;
  void give_up();

  const std::shared_ptr<diagnosis::Hub> hub_;
  const int rank_;
  const std::shared_ptr<const cuda::Gpu> gpu_;
  cuda::CudaDevice device_;
  mutable cuda::End end_{device_.compute()};  // of what must end before this rank is quiet
  const std::shared_ptr<const cuda::Stream> transfer_;
  std::unique_ptr<Connection> connection_;
  Traffic traffic_;
  diagnosis::FlightRecorder recorder_;
  std::vector<std::int64_t> sent_, awaited_;          // messages so far, [world rank of the peer]
  std::deque<std::shared_ptr<Operation>> in_flight_;  // in the order of the transfer stream
  std::shared_ptr<Operation> posting_;                // about to be queued, or failed there
  std::optional<Operations> captured_;                // by the graph that is being captured
  std::vector<std::weak_ptr<cuda::Executable>> executables_;  // of graphs with messages
  std::optional<Error> dropped_;                              // to be reported at the next call
  bool connected_ = false, gave_up_ = false, closed_ = false;
  std::mutex queueing_;                     // messages are being queued
  std::optional<std::int64_t> gone_since_;  // for interrupt(): another rank is
  std::mt19937_64 random_;
};

}  // namespace ringspan::comm::streams
