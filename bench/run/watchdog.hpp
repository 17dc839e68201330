// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "comm/communicator.hpp"

namespace ringspan::bench {

/// While it lives, ends the work of all ranks when `seconds` have passed or Ctrl-C was pressed,
/// both with kind aborted: a timeout is a rank that makes no progress. Kernels and waits notice at
/// their next poll.
class Watchdog {
 public:
  Watchdog(comm::Communicator world, double seconds);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  void watch(double seconds);

  comm::Communicator world_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;  // last: runs while the others live
};

}  // namespace ringspan::bench
