// SPDX-License-Identifier: Apache-2.0
// What the processes of a machine share, for shared_hub.cpp and shared_hub_relay.cpp alone.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/processes/watched_process.hpp"
#include "comm/transports/streams/shared_hub.hpp"

namespace ringspan::comm::streams {

constexpr std::size_t kLongestNotice = 1024;  // what processes::encode() keeps within
constexpr std::uint32_t kMostGroups = 4096;
constexpr std::int64_t kHeld = 20'000'000;  // ns, for which a lock may be

template <typename Value>
std::atomic_ref<Value> shared(Value& value) {
  return std::atomic_ref<Value>(value);
}

/// A notice that is replaced as a whole. Whoever dies with the lock leaves none.
struct SharedNotice {
  void start() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }

  /// False if another has it for longer than it takes to read or write: that one is stopped.
  bool try_lock() { return lock_within(kHeld); }
  /// Likewise, after so many nanoseconds.
  bool lock_within(std::int64_t longest) {
    const std::int64_t start = diagnosis::steady_now();
    int code;
    while ((code = pthread_mutex_trylock(&mutex)) == EBUSY &&
           diagnosis::steady_now() - start < longest)
      sched_yield();
    if (code == EOWNERDEAD) pthread_mutex_consistent(&mutex);
    return code == 0 || code == EOWNERDEAD;
  }
  void unlock() { pthread_mutex_unlock(&mutex); }

  void write(const std::vector<std::byte>& text) {
    size = 0;
    std::copy(text.begin(), text.end(), notice.begin());
    size = text.size();
  }
  /// Empty, too, if somebody who is stopped has the lock.
  std::vector<std::byte> read() {
    const std::unique_lock held(*this, std::try_to_lock);
    if (!held) return {};
    return {notice.begin(), notice.begin() + size};
  }

  pthread_mutex_t mutex;
  std::size_t size;  // 0: nothing yet
  std::array<std::byte, kLongestNotice> notice;
};

struct SharedHub::Header {
  SharedNotice failure;  // and the lock of the groups
  std::uint32_t failed;
  std::uint32_t groups;
  std::int64_t newest;                       // of all heartbeats known here: each new one is beyond
  std::int64_t turned;                       // when the relay last had a turn, in ns
  std::array<GroupName, kMostGroups> names;  // [id]
};

struct alignas(64) SharedHub::Member {
  SharedNotice status;
  std::int64_t looked_at;  // of what it waits for, as in Waiting
  std::int64_t heartbeat;
  processes::ProcessIdentity process;  // of this machine alone
  std::uint32_t returned, active, ended, left;
  std::int64_t gone;   // as in ProcessState, of other machines
  std::int64_t heard;  // of the first process of another machine: when it was last heard of, in ns
  std::array<std::int64_t, kMostGroups> posted;  // operations, [group]
};

}  // namespace ringspan::comm::streams
