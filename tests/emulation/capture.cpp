// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/capture.hpp"

#include <algorithm>
#include <utility>

#include "tests/emulation/stream.hpp"

using ringspan::comm::cuda::Address;
using ringspan::comm::cuda::kSuccess;
using ringspan::comm::cuda::Status;

namespace emulation {
namespace {

thread_local std::shared_ptr<Capture> captured;

}  // namespace

Capture::Capture(const std::shared_ptr<Queue>& origin) : streams_{origin} {
  clocks_[origin.get()][origin.get()] = 0;
}

void Capture::push(const Queue* stream, std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++clocks_[stream][stream];
}

Capture::Clock Capture::now(const Queue* stream) const {
  const std::lock_guard lock(mutex_);
  return clocks_.at(stream);
}

void Capture::wait(const std::shared_ptr<Queue>& stream, const Clock& before) {
  const std::lock_guard lock(mutex_);
  if (!clocks_.contains(stream.get())) streams_.push_back(stream);
  Clock& clock = clocks_[stream.get()];
  for (const auto& [other, count] : before) clock[other] = std::max(clock[other], count);
  ++clock[stream.get()];
}

bool Capture::starts_at(const Queue* stream) const {
  const std::lock_guard lock(mutex_);
  return streams_.front().get() == stream;
}

void Capture::invalidate() {
  const std::lock_guard lock(mutex_);
  valid_ = false;
}

bool Capture::valid() const {
  const std::lock_guard lock(mutex_);
  return valid_;
}

bool Capture::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

void Capture::allocate(Address address) {
  const std::lock_guard lock(mutex_);
  kept_.insert(address);
}

void Capture::release(Address address) {
  const std::lock_guard lock(mutex_);
  kept_.erase(address);
}

std::set<Address> Capture::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

bool Capture::end(Tasks& tasks) {
  std::vector<std::shared_ptr<Queue>> streams;
  const bool joined = take(tasks, streams);
  for (const auto& stream : streams) stream->capture({});
  return joined;
}

bool Capture::take(Tasks& tasks, std::vector<std::shared_ptr<Queue>>& streams) {
  const std::lock_guard lock(mutex_);
  over_ = true;
  tasks = std::move(tasks_);
  Clock& last = clocks_[streams_.front().get()];
  const bool joined = std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return last[stream.get()] == clocks_[stream.get()][stream.get()];
  });
  streams = std::move(streams_);
  return joined;
}

void capture_here(std::shared_ptr<Capture> capture) { captured = std::move(capture); }

bool forbidden_in_capture() {
  if (captured) captured->invalidate();
  return captured != nullptr;
}

Status queue_wait(const std::shared_ptr<Queue>& stream, const std::shared_ptr<Mark>& mark) {
  const std::shared_ptr<Capture> own = stream->capture(), &other = mark->capture();
  if (!own && !other) {
    stream->push([mark] { mark->wait(); });
    return kSuccess;
  }
  if (own != other && own) own->invalidate();
  if (!other) return kCaptureIsolation;
  if (other->over()) return kCapturedEvent;
  if (own != other && own) {
    other->invalidate();
    return kCaptureMerge;
  }
  if (!other->valid()) return kCaptureInvalidated;
  stream->capture(other);
  other->wait(stream, mark->clock());
  return kSuccess;
}

}  // namespace emulation
