// SPDX-License-Identifier: Apache-2.0
// Streams and events of the emulated driver.
#include "tests/emulation/stream.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "tests/emulation/faults.hpp"

using namespace ringspan::comm::cuda;

namespace emulation {

namespace {

struct Queues {
  std::mutex mutex;
  std::vector<std::weak_ptr<Queue>> all;
};

Queues& queues() {
  static Queues* const queues = new Queues;
  return *queues;
}

std::atomic<long> streams{0};

// Up to so many microseconds, on each stream by other times, alike in every run.
void be_late(std::minstd_rand& random) {
  static const char* const text = std::getenv("RINGSPAN_EMULATED_STREAM_DELAY");
  static const int always = text ? std::atoi(text) : 0;
  const int injected = emulation_injected("streamDelay"), longest = injected ? injected : always;
  if (longest > 0)
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution(0, longest)(random)));
}

}  // namespace

std::shared_ptr<Queue> Queue::start() {
  const auto queue = std::make_shared<Queue>();
  {
    const std::lock_guard lock(queues().mutex);
    std::erase_if(queues().all, [](const auto& other) { return other.expired(); });
    queues().all.push_back(queue);
  }
  std::thread([queue] { queue->run(); }).detach();
  return queue;
}

void Queue::push(std::function<void()> task) {
  if (const auto captured = capture()) return captured->push(this, std::move(task));
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++queued_;
  changed_.notify_all();
}

void Queue::capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

std::shared_ptr<Capture> Queue::capture() const {
  const std::lock_guard lock(mutex_);
  return capture_;
}

bool Queue::idle() const {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void Queue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, last = queued_] { return run_ >= last; });
}

void Queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Queue::run() {
  static std::atomic<unsigned> streams_so_far{0};
  std::minstd_rand random(++streams_so_far);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    lock.unlock();
    be_late(random);
    task();
    task = {};
    lock.lock();
    tasks_.pop_front();
    ++run_;
    changed_.notify_all();
  }
}

void wait_for_all_streams() {
  std::vector<std::shared_ptr<Queue>> all;
  {
    const std::lock_guard lock(queues().mutex);
    for (const auto& queue : queues().all)
      if (auto here = queue.lock()) all.push_back(std::move(here));
  }
  for (const auto& queue : all) queue->wait();
}

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

bool Mark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::chrono::steady_clock::time_point Mark::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

namespace {

std::atomic_ref<std::uint32_t> shared_value(Address address) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address));
}

std::shared_ptr<Mark> last_record(EventHandle event) {
  const std::lock_guard lock(event->mutex);
  return event->mark;
}

}  // namespace
}  // namespace emulation

extern "C" {

constexpr Status kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400;

Status cuStreamCreate(StreamHandle* stream, unsigned) {
  if (const Status status = emulation_injected("cuStreamCreate")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  ++emulation::streams;
  *stream = new CUstream_st{emulation::Queue::start(), emulation::current_ordinal()};
  return kSuccess;
}

long emulation_streams() { return emulation::streams; }

Status cuStreamDestroy_v2(StreamHandle stream) {
  if (!stream) return kInvalidHandle;
  stream->queue->close();
  delete stream;
  --emulation::streams;
  return kSuccess;
}

Status cuStreamQuery(StreamHandle stream) {
  if (const Status status = emulation_injected("cuStreamQuery")) return status;
  if (!stream) return kInvalidHandle;
  if (const auto capture = stream->queue->capture()) {
    capture->invalidate();
    return emulation::kCaptureUnsupported;
  }
  return stream->queue->idle() ? kSuccess : kErrorNotReady;
}

// Waits for what has been recorded so far, not for later records.
Status cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  if (const Status status = emulation_injected("cuStreamWaitEvent")) return status;
  if (!stream || !event) return kInvalidHandle;
  const auto mark = emulation::last_record(event);
  return mark ? emulation::queue_wait(stream->queue, mark) : kSuccess;
}

Status cuLaunchHostFunc(StreamHandle stream, void (*function)(void*), void* data) {
  if (const Status status = emulation_injected("cuLaunchHostFunc")) return status;
  if (!stream) return kInvalidHandle;
  if (!function) return kInvalidValue;
  stream->queue->push([=] { function(data); });
  return kSuccess;
}

// Other processes may write what is waited for, so nobody rings.
Status cuStreamWaitValue32_v2(StreamHandle stream, Address address, std::uint32_t value,
                              unsigned flags) {
  if (const Status status = emulation_injected("cuStreamWaitValue32")) return status;
  if (!stream) return kInvalidHandle;
  if (flags != kWaitAtLeast || address % sizeof(value) != 0) return kInvalidValue;
  stream->queue->push([=] {
    while (static_cast<std::int32_t>(emulation::shared_value(address).load() - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return kSuccess;
}

Status cuStreamWriteValue32_v2(StreamHandle stream, Address address, std::uint32_t value,
                               unsigned) {
  if (const Status status = emulation_injected("cuStreamWriteValue32")) return status;
  if (!stream) return kInvalidHandle;
  if (address % sizeof(value) != 0) return kInvalidValue;
  stream->queue->push([=] { emulation::shared_value(address).store(value); });
  return kSuccess;
}

Status cuEventCreate(EventHandle* event, unsigned flags) {
  if (const Status status = emulation_injected("cuEventCreate")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  *event = new CUevent_st;
  (*event)->timed = (flags & kEventDisableTiming) == 0;
  (*event)->ordinal = emulation::current_ordinal();
  return kSuccess;
}

Status cuEventDestroy_v2(EventHandle event) {
  delete event;
  return kSuccess;
}

Status cuEventRecord(EventHandle event, StreamHandle stream) {
  if (const Status status = emulation_injected("cuEventRecord")) return status;
  if (!stream || !event || stream->ordinal != event->ordinal) return kInvalidHandle;
  const auto mark = std::make_shared<emulation::Mark>(*stream->queue);
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  if (!mark->capture()) stream->queue->push([mark] { mark->reach(); });
  return kSuccess;
}

Status cuEventQuery(EventHandle event) {
  if (const Status status = emulation_injected("cuEventQuery")) return status;
  if (!event) return kInvalidHandle;
  if (emulation::forbidden_in_capture()) return emulation::kCaptureUnsupported;
  const auto mark = emulation::last_record(event);
  if (mark && mark->capture()) {
    mark->capture()->invalidate();
    return emulation::kCapturedEvent;
  }
  return !mark || mark->reached() ? kSuccess : kErrorNotReady;
}

Status cuEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  if (!start || !end || !start->timed || !end->timed) return kInvalidHandle;
  const auto first = emulation::last_record(start), last = emulation::last_record(end);
  if (!first || !last) return kInvalidHandle;
  if (!first->reached() || !last->reached()) return kErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count() *
                  (1 + emulation_injected("eventClock") * 1e-2F);
  return kSuccess;
}
}
