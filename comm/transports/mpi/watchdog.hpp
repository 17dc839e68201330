// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ringspan::comm::mpi {

/// Ends the process, with a line on stderr and status 1, unless it is gone within some seconds: for
/// calls that no deadline can be passed to.
class Watchdog {
 public:
  Watchdog(double seconds, std::string call, std::string why = "a process is missing");
  ~Watchdog();

 private:
  void watch(double seconds);

  const std::string call_, why_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace ringspan::comm::mpi
