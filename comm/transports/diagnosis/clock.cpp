// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/clock.hpp"

#include <sched.h>
#include <time.h>

#include <thread>

namespace ringspan::comm::diagnosis {

namespace {

constexpr std::int64_t kChance = 10'000'000;         // ns; a few turns of the scheduler
constexpr std::int64_t kLastChance = 1'000'000'000;  // ns; however busy the machine is

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

bool had_its_chance(const std::function<bool()>& over) {
  const std::int64_t start = thread_time(), end = steady_now() + kLastChance;
  while (thread_time() - start < kChance && steady_now() < end) {
    if (over()) return false;
    std::this_thread::yield();
  }
  return true;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace ringspan::comm::diagnosis
