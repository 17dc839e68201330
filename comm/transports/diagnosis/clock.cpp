// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/clock.hpp"

#include <sched.h>
#include <time.h>

#include <thread>

namespace ringspan::comm::diagnosis {

namespace {

std::int64_t read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

std::int64_t coarse_now() {
#if defined(__linux__)
  return read(CLOCK_MONOTONIC_COARSE);
#else
  return steady_now();
#endif
}

std::int64_t thread_time() { return read(CLOCK_THREAD_CPUTIME_ID); }

int usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace ringspan::comm::diagnosis
