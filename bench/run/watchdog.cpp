// SPDX-License-Identifier: Apache-2.0
#include "bench/run/watchdog.hpp"

#include <chrono>
#include <utility>

#include "bench/interrupt.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

Watchdog::Watchdog(comm::Communicator world, double seconds)
    : world_(std::move(world)), thread_([this, seconds] { watch(seconds); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::watch(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{20};  // at Ctrl-C, which cannot notify anybody
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kLook, [this] { return end_; })) {
    if (interrupted()) {
      world_.abort(Error(ErrorKind::aborted, "interrupted"));
      return;
    }
    if (std::chrono::duration<double>(Clock::now() - start).count() < seconds) continue;
    world_.abort(Error(ErrorKind::aborted,
                       concat("the point took longer than --point-timeout ", seconds, " s")));
    return;
  }
}

}  // namespace ringspan::bench
