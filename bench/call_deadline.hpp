// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ringspan::bench {

/// For calls of another library to which no deadline can be passed: when one of them has not
/// returned within `seconds`, or an eighth more, ends the process, with a line on stderr that says
/// what was called, and status 1; the launcher then ends the others. A call costs two atomic
/// additions. For one thread.
class CallDeadline {
 public:
  CallDeadline(double seconds, std::string call);
  CallDeadline(const CallDeadline&) = delete;
  CallDeadline& operator=(const CallDeadline&) = delete;
  ~CallDeadline();

  /// Calls it; what it throws passes.
  template <typename Call>
  void operator()(const Call& call) {
    const Turn turn(turns_);
    call();
  }

 private:
  struct Turn {
    explicit Turn(std::atomic<std::int64_t>& turns) : turns_(turns) { ++turns_; }
    ~Turn() { ++turns_; }
    std::atomic<std::int64_t>& turns_;
  };

  void watch();

  const double seconds_;
  const std::string call_;
  std::atomic<std::int64_t> turns_{0};  // odd: a call is under way
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;  // last: runs while the others live
};

}  // namespace ringspan::bench
