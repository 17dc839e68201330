// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/watchdog.hpp"

#include <chrono>
#include <utility>

namespace ringspan::comm::streams {
namespace {

constexpr std::chrono::milliseconds kInterval(20);

}  // namespace

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::add(std::shared_ptr<Engine> engine) {
  const std::lock_guard lock(mutex_);
  engines_.push_back(std::move(engine));
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kInterval, [this] { return over_; })) {
    const auto engines = engines_;
    lock.unlock();  // a call may take its time
    for (const std::shared_ptr<Engine>& engine : engines) engine->interrupt();
    lock.lock();
  }
}

}  // namespace ringspan::comm::streams
