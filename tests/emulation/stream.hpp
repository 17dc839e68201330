// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/devices/cuda/api.hpp"
#include "tests/emulation/capture.hpp"

namespace emulation {

/// Work in order, on a thread of its own that ends when the queue has been closed and is empty. It
/// may outlive its handle, as a stream of a GPU does.
class Queue {
 public:
  static std::shared_ptr<Queue> start();

  void push(std::function<void()> task);
  /// From now on tasks do not run, but become part of that; null: they run.
  void capture(std::shared_ptr<Capture> capture);
  std::shared_ptr<Capture> capture() const;
  bool idle() const;
  /// Returns when all that is queued now has run.
  void wait();
  void close();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the first one runs
  std::shared_ptr<Capture> capture_;
  std::uint64_t queued_ = 0, run_ = 0;
  bool closed_ = false;
};

/// Returns when all that is queued now on any stream of this process has run.
void wait_for_all_streams();

/// A place in a queue, or in what is captured, which is not reached.
class Mark {
 public:
  explicit Mark(const Queue& queue)
      : capture_(queue.capture()), clock_(capture_ ? capture_->now(&queue) : Capture::Clock{}) {}
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  const Capture::Clock& clock() const { return clock_; }

  void reach();
  void wait();
  bool reached() const;
  std::chrono::steady_clock::time_point time() const;

 private:
  const std::shared_ptr<Capture> capture_;
  const Capture::Clock clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

int device_count();
/// The GPU that is current for the calling thread; -1: none.
int current_ordinal();
/// The same among all of the machine, whatever this process sees.
int current_gpu();

/// Of what cuMemAllocAsync gave; false: it did not.
bool release_ordered(ringspan::comm::cuda::Address address);
bool is_allocated(ringspan::comm::cuda::Address address);

/// What the address is in: an allocation by cuMemAlloc, or a mapping; no bytes: neither.
struct Mapped {
  ringspan::comm::cuda::Address base = 0;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
  int kinds = 0;  // of handles that it can be exported by
};
Mapped exportable(ringspan::comm::cuda::Address address);
Mapped mapped(ringspan::comm::cuda::Address address);

}  // namespace emulation

struct CUstream_st {
  std::shared_ptr<emulation::Queue> queue;
  int ordinal = 0;
};

struct CUevent_st {
  bool timed = false;
  int ordinal = 0;
  std::mutex mutex;
  std::shared_ptr<emulation::Mark> mark;  // of the last record; null: none yet
};
