// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/transports/threads/operation.hpp"

namespace ringspan::comm::threads {

/// Where other ranks leave what concerns one rank. `events` counts everything that may end a wait,
/// so that a rank can look at it, check its own state and then sleep without missing anything.
class Mailbox {
 public:
  void push(Letter letter) {
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back(std::move(letter));
      events_.fetch_add(1);
    }
    changed_.notify_one();
  }

  /// Something changed that is not a letter: a message was received, or the world failed.
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      events_.fetch_add(1);
    }
    changed_.notify_one();
  }

  std::vector<Letter> take() {
    std::vector<Letter> letters;
    const std::lock_guard lock(mutex_);
    letters.swap(letters_);
    return letters;
  }

  std::int64_t events() const { return events_.load(); }

  /// Until something has happened since `seen` was read, or `seconds` have passed.
  void sleep(std::int64_t seen, double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [&] { return events_.load() != seen; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Letter> letters_;
  std::atomic<std::int64_t> events_{0};
};

}  // namespace ringspan::comm::threads
