// SPDX-License-Identifier: Apache-2.0
#include "bench/call_deadline.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace ringspan::bench {

CallDeadline::CallDeadline(double seconds, std::string call)
    : seconds_(seconds), call_(std::move(call)), thread_([this] { watch(); }) {}

CallDeadline::~CallDeadline() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

// Looks from time to time, so that calls need no clock: it is over if the same call was under way
// at all looks of the last `seconds`.
void CallDeadline::watch() {
  using Clock = std::chrono::steady_clock;
  using duration = std::chrono::duration<double>;
  const duration limit(seconds_), look = std::min(limit / 8, duration(60));
  std::int64_t seen = 0;
  Clock::time_point since = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, look, [this] { return end_; })) {
    const std::int64_t turns = turns_;
    const bool same_call = turns == seen && turns % 2 == 1;
    if (!same_call) {
      seen = turns;
      since = Clock::now();
    } else if (Clock::now() - since >= limit) {
      std::fflush(stdout);  // _exit() would drop what was printed
      std::fprintf(stderr,
                   "ringspan: %s has not returned within %g s: a process is missing, or the "
                   "deadline is too short\n",
                   call_.c_str(), seconds_);
      _exit(1);
    }
  }
}

}  // namespace ringspan::bench
