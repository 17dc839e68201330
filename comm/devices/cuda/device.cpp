// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/devices/cuda/copy.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr double kPollPause = 100e-6;  // seconds
constexpr double kShortestNap = 20e-6, kLongestNap = 10e-3, kNapPerWait = 0.1;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Only where host and GPU share one memory.
bool host_reaches(const Gpu& gpu, const Buffer& sample) {
  const Current current(gpu);
  void* pointer = nullptr;
  const auto address = reinterpret_cast<Address>(sample.data());
  return gpu.api().pointer_attribute(&pointer, kHostPointer, address) == kSuccess &&
         pointer == sample.data();
}

void wait_alone(const std::function<bool()>& done, double deadline) {
  const double start = seconds_now();
  while (!done()) {
    const double waited = seconds_now() - start;
    if (waited > deadline)
      throw Error(ErrorKind::timeout,
                  concat("what is queued on the GPU has not ended in ", deadline, " s"));
    std::this_thread::sleep_for(std::chrono::duration<double>(nap_after(waited)));
  }
}

}  // namespace

double nap_after(double seconds) {
  return std::clamp(kNapPerWait * seconds, kShortestNap, kLongestNap);
}

CudaDevice::CudaDevice(const std::shared_ptr<const Gpu>& gpu, const DeviceOptions& options)
    : gpu_(gpu),
      options_(options),
      compute_(std::make_shared<Stream>(gpu, options.compute)),
      memory_(std::make_shared<Memory>(compute_, options.allocator, options.poison)),
      host_reaches_memory_(host_reaches(*gpu, memory_->allocate(1))),
      reduction_(*compute_, memory_),
      wait_(wait_alone) {
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
  queue_copy(*compute_, to, from);
  queued();
}

void CudaDevice::copy_all(std::span<const Copy> copies) {
  for (const Copy& each : copies) queue_copy(*compute_, each.to, each.from);
  queued();
}

void CudaDevice::reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) {
  reduction_.queue(to, from, element, reduction);
  queued();
}

void CudaDevice::queued() {
  if (options_.blocking) synchronize(options_.deadline);
}

void CudaDevice::synchronize(double deadline) {
  wait_([this] { return compute_->idle(); }, deadline);
}

void CudaDevice::on_wait(Wait wait) { wait_ = wait ? std::move(wait) : wait_alone; }

double CudaDevice::now() const { return seconds_now(); }

void CudaDevice::poll() {
  if (!progress_) return;
  const double start = seconds_now();
  if (start < next_poll_) return;
  progress_();
  const double end = seconds_now();
  poll_seconds_ += end - start;
  next_poll_ = end + kPollPause;
}

}  // namespace ringspan::comm::cuda
