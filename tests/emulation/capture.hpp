// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "comm/devices/cuda/api.hpp"

namespace emulation {

class Mark;
class Queue;

inline constexpr ringspan::comm::cuda::Status kCaptureUnsupported = 900, kCaptureInvalidated = 901,
                                              kCaptureMerge = 903, kCaptureUnmatched = 902,
                                              kCaptureUnjoined = 904, kCaptureIsolation = 905,
                                              kCapturedEvent = 907, kCaptureWrongThread = 908;

/// What is queued on a stream, and on those that join it, while a graph is captured: tasks in the
/// order in which they were queued, which is one in which the graph may run.
class Capture {
 public:
  using Tasks = std::vector<std::function<void()>>;
  /// How much of what was queued on each stream lies before something.
  using Clock = std::map<const Queue*, std::size_t>;

  explicit Capture(const std::shared_ptr<Queue>& origin);

  void push(const Queue* stream, std::function<void()> task);
  Clock now(const Queue* stream) const;
  /// What the stream is given from now on comes after that; a stream that is new here joins.
  void wait(const std::shared_ptr<Queue>& stream, const Clock& before);

  bool starts_at(const Queue* stream) const;
  bool began_here() const { return thread_ == std::this_thread::get_id(); }
  /// A capture that has seen what no graph can hold is of no use any more.
  void invalidate();
  bool valid() const;
  bool over() const;
  /// Memory that is allocated by the graph, and not by it released.
  void allocate(ringspan::comm::cuda::Address address);
  void release(ringspan::comm::cuda::Address address);
  std::set<ringspan::comm::cuda::Address> kept() const;
  /// Its streams run again what they are given. False: some have work that the first one, where the
  /// graph ends, does not come after.
  bool end(Tasks& tasks);

 private:
  bool take(Tasks& tasks, std::vector<std::shared_ptr<Queue>>& streams);

  const std::thread::id thread_ = std::this_thread::get_id();
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Queue>> streams_;
  std::map<const Queue*, Clock> clocks_;
  Tasks tasks_;
  std::set<ringspan::comm::cuda::Address> kept_;
  bool valid_ = true, over_ = false;
};

/// The calling thread captures; null: no more.
void capture_here(std::shared_ptr<Capture> capture);
/// What asks the driver for memory, or what has run, does not while the thread captures: it fails,
/// and invalidates the capture.
bool forbidden_in_capture();

/// The stream comes after the mark, and where that is captured becomes part of the capture.
ringspan::comm::cuda::Status queue_wait(const std::shared_ptr<Queue>& stream,
                                        const std::shared_ptr<Mark>& mark);

}  // namespace emulation
