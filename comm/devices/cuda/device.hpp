// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "comm/device.hpp"
#include "comm/devices/cuda/gpu.hpp"
#include "comm/devices/cuda/host_reduction.hpp"
#include "comm/devices/cuda/memory.hpp"
#include "comm/devices/cuda/timeline.hpp"

namespace ringspan::comm::cuda {

class Executable;

struct DeviceOptions {
  StreamHandle compute = nullptr;  // the caller's, which outlives the device; none: one is made
  Allocator allocator = {};        // of device memory; none: the driver's pool
  bool poison = false;             // NaN in buffers that are handed out or let go of
  bool blocking = false;           // whatever is queued is waited for at once
  double deadline = 60;            // seconds, of those waits
  Trace trace = {};                // told, at synchronize, what ran on the compute stream, and when
  int rank = 0;                    // whose it is, for the trace
};

/// A GPU. Copies and reductions are queued on its compute stream, in the order of the calls.
class CudaDevice final : public Device {
 public:
  CudaDevice(const std::shared_ptr<const Gpu>& gpu, const DeviceOptions& options);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  bool host_reaches_memory() const override { return host_reaches_memory_ && options_.blocking; }

  Buffer allocate(std::int64_t bytes) override;
  /// What kernels need besides; not counted.
  Buffer allocate_workspace(std::int64_t bytes);
  Buffer allocate_values(std::int64_t bytes) override { return memory_->allocate_values(bytes); }
  /// The same for what the library needs for itself; not counted.
  Buffer allocate_staging(std::int64_t bytes) { return memory_->allocate_values(bytes, false); }
  MemoryUse memory() const override { return memory_->use(); }
  void reset_peak() override { memory_->reset_peak(); }

  void copy(const Slice& to, const Slice& from) override;
  void copy_all(std::span<const Copy> copies) override;
  void reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) override;
  void synchronize(double deadline) override;
  double now() const override;

  void poll() override;
  double poll_seconds() const override { return poll_seconds_; }
  void on_poll(std::function<void()> progress) override { progress_ = std::move(progress); }

  const Stream& compute() const { return *compute_; }
  /// Null without a trace.
  Timeline* timeline() const { return timeline_.get(); }
  bool blocking() const { return options_.blocking; }
  bool keeps(const Slice& slice) const { return memory_->keeps(slice.data()); }
  bool holds_values(const Slice& slice) const { return memory_->holds_values(slice.data()); }

  /// How this rank's host waits until `done`. A transport installs a way of its own,
  /// which knows whom the rank waits for, and takes it back, by an empty one, when it goes.
  using Wait = std::function<void(const std::function<bool()>& done, double deadline)>;
  void on_wait(Wait wait);

  /// What a transport does where a Graph is captured on the compute stream, installed and taken
  /// back likewise. From `begin` on messages may become part of it. `end`, in any case: given what
  /// the graph is launched by, if there is one now, it returns how that is to be launched if it has
  /// messages.
  struct Capture {
    std::function<void()> begin = {};
    std::function<std::function<void()>(const std::shared_ptr<Executable>&)> end = {};
  };
  void on_capture(Capture capture) { capture_ = std::move(capture); }
  const Capture& capture() const { return capture_; }

  /// To be called after something was queued on compute(): a blocking device waits for it.
  void queued();

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const DeviceOptions options_;
  const std::shared_ptr<const Stream> compute_;
  const std::shared_ptr<Memory> memory_;
  const bool host_reaches_memory_;
  HostReduction reduction_;
  std::unique_ptr<Timeline> timeline_;
  std::function<void()> progress_;
  Wait wait_;
  Capture capture_;
  double next_poll_ = 0, poll_seconds_ = 0;
};

}  // namespace ringspan::comm::cuda
