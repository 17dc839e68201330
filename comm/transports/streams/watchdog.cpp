// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace ringspan::comm::streams {
namespace {

constexpr std::chrono::milliseconds kInterval(20);
constexpr std::chrono::milliseconds kSettling(500);

using Clock = std::chrono::steady_clock;
using Engines = std::vector<std::shared_ptr<Engine>>;

void keep(Engines engines) {
  static std::mutex mutex;
  static auto* const kept = new Engines;
  const std::lock_guard lock(mutex);
  std::move(engines.begin(), engines.end(), std::back_inserter(*kept));
}

}  // namespace

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
  // Memory that was let go of last is still being released.
  for (const auto start = Clock::now(); Clock::now() - start < kSettling;) {
    for (const std::shared_ptr<Engine>& engine : engines_) engine->interrupt();
    const auto quiet = [](const std::shared_ptr<Engine>& engine) { return engine->quiet(); };
    if (std::all_of(engines_.begin(), engines_.end(), quiet)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::fprintf(stderr,
               "ringspan: work on a GPU does not end; the memory that it may use is kept\n");
  keep(std::move(engines_));
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
