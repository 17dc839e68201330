// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "comm/buffer.hpp"

namespace ringspan::comm {

struct Cluster;

/// reproducible: a ReproducibleSum, which has no order but can be summed.
enum class Element { f32, f64, i64, reproducible };
std::int64_t element_bytes(Element element);

enum class Reduction { sum, min, max };

/// Bytes handed out by a device's allocate(). The peak can be reset, to measure one phase.
struct MemoryUse {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};

/// Inside one rank's memory; the slices have equal bytes and do not overlap.
struct Copy {
  Slice to, from;
};

/// Where one rank's memory lives and its kernels run. Kernels are queued in order on one compute
/// queue (the host's queue is the calling thread). Used by its own rank only, except that buffers
/// may be released on any thread.
class Device {
 public:
  virtual ~Device() = default;

  /// "host", "cuda" or "simulated".
  virtual std::string_view name() const = 0;

  /// Whether code of the host may read and write buffers wherever it calls nothing that is queued:
  /// what kernels of the host need.
  virtual bool host_reaches_memory() const { return true; }

  /// Counted, 64-byte aligned, contents unspecified (NaN under debug poisoning). Zero bytes are
  /// legal. The device may go before the buffer does.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  /// The same for values that the host will look at: memory with storage in every world.
  virtual Buffer allocate_values(std::int64_t bytes) { return allocate(bytes); }
  virtual MemoryUse memory() const = 0;
  virtual void reset_peak() = 0;

  /// Queues `to = from`; the slices have equal bytes and do not overlap.
  virtual void copy(const Slice& to, const Slice& from) = 0;
  /// The same of many at once, none of which needs another: one kernel, where these are launched.
  virtual void copy_all(std::span<const Copy> copies);

  /// Queues `to[i] = reduce(to[i], from[i])`; both are contiguous and equally long.
  virtual void reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) = 0;

  /// Queues modelled work that takes so long on a GPU of cluster(); not_available elsewhere.
  virtual void compute(double seconds, std::string_view kernel);

  /// Of all that was so queued, copies and reductions included, if nothing slows it down.
  virtual double queued_seconds() const { return 0; }

  /// What a simulated device is part of; null where work is real.
  virtual const Cluster* cluster() const { return nullptr; }

  /// Returns when everything queued has run; throws timeout after `deadline` seconds without
  /// progress.
  virtual void synchronize(double deadline) = 0;

  /// Seconds, real or virtual, from an arbitrary start.
  virtual double now() const = 0;

  /// Lets the rank's transport make progress. Kernels on the host call it between tiles; it is
  /// throttled, cheap when there is nothing to do, and throws the first failure of the world.
  virtual void poll() = 0;

  /// Seconds spent inside poll() so far. They belong to communication, not to the kernel around it.
  virtual double poll_seconds() const = 0;

  /// What poll() drives; installed by the transport's engine, empty when it goes.
  virtual void on_poll(std::function<void()> progress) = 0;
};

}  // namespace ringspan::comm
