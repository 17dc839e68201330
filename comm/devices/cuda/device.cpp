// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/device.hpp"

#include <algorithm>
#include <utility>

#include "comm/devices/cuda/copy.hpp"
#include "comm/devices/cuda/host_clock.hpp"
#include "comm/devices/cuda/kernel_span.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr double kPollPause = 100e-6;  // seconds

// Only where host and GPU share one memory.
bool host_reaches(const Gpu& gpu, const Buffer& sample) {
  const Current current(gpu);
  void* pointer = nullptr;
  const auto address = reinterpret_cast<Address>(sample.data());
  return gpu.api().pointer_attribute(&pointer, kHostPointer, address) == kSuccess &&
         pointer == sample.data();
}

}  // namespace

CudaDevice::CudaDevice(const std::shared_ptr<const Gpu>& gpu, const DeviceOptions& options)
    : gpu_(gpu),
      options_(options),
      compute_(std::make_shared<Stream>(gpu, options.compute)),
      memory_(std::make_shared<Memory>(compute_, options.allocator, options.poison)),
      host_reaches_memory_(host_reaches(*gpu, memory_->allocate(1))),
      reduction_(*compute_, memory_),
      wait_(wait_on_host) {
  if (options.trace)
    timeline_ = std::make_unique<Timeline>(compute_, options.rank, options.trace, options.deadline);
  memory_->reset_peak();
}

CudaDevice::~CudaDevice() = default;

Buffer CudaDevice::allocate(std::int64_t bytes) {
  Buffer buffer = memory_->allocate(bytes, true, [this] { synchronize(options_.deadline); });
  if (options_.poison) queued();
  return buffer;
}

Buffer CudaDevice::allocate_workspace(std::int64_t bytes) {
  Buffer buffer = memory_->allocate(bytes, false, [this] { synchronize(options_.deadline); });
  if (options_.poison) queued();
  return buffer;
}

void CudaDevice::copy(const Slice& to, const Slice& from) {
  const KernelSpan span(*this, "copy");
  queue_copy(*compute_, to, from);
  queued();
}

void CudaDevice::copy_all(std::span<const Copy> copies) {
  const KernelSpan span(*this, "copy");
  for (const Copy& each : copies) queue_copy(*compute_, each.to, each.from);
  queued();
}

// What the host is to do with a piece it does once; a graph would have it done at every launch.
void CudaDevice::reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) {
  RINGSPAN_REQUIRE(!compute_->capturing(),
                   "reduce: it goes by the host, and cannot be part of a graph");
  const KernelSpan span(*this, "reduce");
  reduction_.queue(to, from, element, reduction);
  queued();
}

void CudaDevice::queued() {
  if (options_.blocking) synchronize(options_.deadline);
}

void CudaDevice::synchronize(double deadline) {
  bool captured = false;
  End end(*compute_);
  wait_([&] { return (captured = compute_->capturing()) || end.reached(); }, deadline);
  RINGSPAN_REQUIRE(!captured,
                   "synchronize: a graph is being captured, and nothing of it runs; wait for what "
                   "launches it");
  if (timeline_) timeline_->tell();
}

void CudaDevice::on_wait(Wait wait) { wait_ = wait ? std::move(wait) : wait_on_host; }

double CudaDevice::now() const { return host_seconds(); }

void CudaDevice::poll() {
  if (!progress_) return;
  const double start = host_seconds();
  if (start < next_poll_) return;
  progress_();
  const double end = host_seconds();
  poll_seconds_ += end - start;
  next_poll_ = end + kPollPause;
}

}  // namespace ringspan::comm::cuda
