// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/gpu.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace ringspan::comm::cuda {

Gpu::Gpu(std::shared_ptr<const Api> api, Ordinal ordinal)
    : api_(std::move(api)), ordinal_(ordinal) {
  check(api_->retain_primary_context(&context_, ordinal_), "cuDevicePrimaryCtxRetain");
}

Gpu::~Gpu() { api_->release_primary_context(ordinal_); }

void Gpu::open_pool() const {
  const Current current(*this);
  PoolHandle pool = nullptr;
  check(api_->default_pool(&pool, ordinal_), "cuDeviceGetDefaultMemPool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(api_->set_pool_attribute(pool, kPoolReleaseThreshold, &keep), "cuMemPoolSetAttribute");
  std::vector<MemoryAccess> peers;
  for (Ordinal peer = 0; peer < device_count(*api_); ++peer) {
    int reachable = 0;
    if (peer != ordinal_)
      check(api_->can_access_peer(&reachable, peer, ordinal_), "cuDeviceCanAccessPeer");
    if (reachable) peers.push_back({.device = peer});
  }
  if (!peers.empty())
    check(api_->set_pool_access(pool, peers.data(), peers.size()), "cuMemPoolSetAccess");
}

Current::Current(const Gpu& gpu) : gpu_(gpu) {
  gpu_.check(gpu_.api().push_context(gpu_.context_), "cuCtxPushCurrent");
}

Current::~Current() {
  ContextHandle popped = nullptr;
  gpu_.api().pop_context(&popped);
}

Event::Event(std::shared_ptr<const Gpu> gpu, bool timed) : gpu_(std::move(gpu)) {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().event_create(&handle_, timed ? 0 : kEventDisableTiming), "cuEventCreate");
}

Event::~Event() { gpu_->api().event_destroy(handle_); }

bool Event::done() const {
  const Status status = gpu_->api().event_query(handle_);
  if (status == kErrorNotReady) return false;
  gpu_->check(status, "cuEventQuery");
  return true;
}

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  gpu_->check(gpu_->api().elapsed_time(&milliseconds, earlier.handle_, handle_),
              "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

Stream::Stream(std::shared_ptr<const Gpu> gpu, StreamHandle borrowed)
    : gpu_(std::move(gpu)), owned_(borrowed == nullptr), handle_(borrowed) {
  if (!owned_) return;
  const Current current(*gpu_);
  gpu_->check(gpu_->api().stream_create(&handle_, kStreamNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  if (owned_) gpu_->api().stream_destroy(handle_);  // what is queued still runs
}

// A watchdog or a caller may have no context, or another, which the driver takes for an error of
// some of these.
void Stream::record(const Event& event) const {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().event_record(event.handle(), handle_), "cuEventRecord");
}

void Stream::wait(const Event& event) const {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().stream_wait_event(handle_, event.handle(), 0), "cuStreamWaitEvent");
}

void Stream::wait_value(Address address, std::uint32_t value) const {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().wait_value(handle_, address, value, kWaitAtLeast), "cuStreamWaitValue32");
}

void Stream::write_value(Address address, std::uint32_t value) const {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().write_value(handle_, address, value, 0), "cuStreamWriteValue32");
}

bool Stream::capturing() const {
  const Current current(*gpu_);
  int status = 0;
  gpu_->check(gpu_->api().is_capturing(handle_, &status), "cuStreamIsCapturing");
  return status != 0;
}

bool Stream::idle() const {
  const Current current(*gpu_);
  const Status status = gpu_->api().stream_query(handle_);
  if (status == kErrorNotReady) return false;
  gpu_->check(status, "cuStreamQuery");
  return true;
}

bool End::reached() {
  const std::lock_guard lock(mutex_);
  if (stream_.idle()) return true;
  if (!event_) {
    auto event = std::make_unique<const Event>(stream_.shared_gpu());
    stream_.record(*event);
    event_ = std::move(event);
  }
  return event_->done();
}

void End::renew() {
  const std::lock_guard lock(mutex_);
  event_.reset();
}

}  // namespace ringspan::comm::cuda
