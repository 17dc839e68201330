// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {

/// Looks after the ranks of a launch while their own threads wait for a GPU by other means than
/// Ringspan's: a failure of the world ends what is queued there, and a failure there is noticed.
/// Outlives the ranks' connections; if a GPU does not come to an end, whatever it may still use is
/// kept until the process ends, and a line on stderr says so.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog();

  void add(std::shared_ptr<Engine> engine);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<std::shared_ptr<Engine>> engines_;
  std::thread thread_;
};

}  // namespace ringspan::comm::streams
