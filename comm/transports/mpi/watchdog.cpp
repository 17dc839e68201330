// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/mpi/watchdog.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace ringspan::comm::mpi {

Watchdog::Watchdog(double seconds, std::string call, std::string why)
    : call_(std::move(call)), why_(std::move(why)), thread_([this, seconds] { watch(seconds); }) {
  std::fflush(stdout);  // _exit() would drop what was printed
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch(double seconds) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; }))
    return;
  std::fprintf(stderr, "ringspan: %s has not returned within %g s: %s\n", call_.c_str(), seconds,
               why_.c_str());
  _exit(1);
}

}  // namespace ringspan::comm::mpi
