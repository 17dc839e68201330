// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace ringspan::comm::diagnosis {

/// Nanoseconds of a steady clock.
inline std::int64_t steady_now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

inline double seconds_since(std::int64_t start) {
  return static_cast<double>(steady_now() - start) * 1e-9;
}

/// steady_now() to a few milliseconds, where that costs less: reading a clock can take as long as
/// posting a message.
std::int64_t coarse_now();

/// Nanoseconds for which the calling thread has run.
std::int64_t thread_time();

/// Cores that the calling thread may use; fewer than the machine has where a job is confined.
int usable_cores();

/// On a busy machine a live peer may not get to run for a whole deadline. So before giving up on
/// it, this competes with it for a core: once this thread has run for a moment, so has the peer.
/// False if `over` comes true meanwhile.
bool had_its_chance(const std::function<bool()>& over);

/// What a spinning thread does between two looks.
void relax();

}  // namespace ringspan::comm::diagnosis
