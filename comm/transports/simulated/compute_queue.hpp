// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/transports/simulated/platform.hpp"

namespace ringspan::comm::simulated {

/// What runs on one GPU's multiprocessors: one kernel at a time, slowed down while messages that
/// need multiprocessors, too, are under way.
class ComputeQueue {
 public:
  explicit ComputeQueue(Platform& platform) : platform_(platform) {}

  /// Not before that time; `ended` is called when it has run.
  void run(double begin, double seconds, const Call& ended);

  /// A message that slows kernels down so much has begun, or has ended.
  void begin_message(double slowdown);
  void end_message(double slowdown);

 private:
  void set_slowdown();
  void schedule();
  void end();

  Platform& platform_;
  std::vector<double> messages_;  // slow-downs of those under way
  double slowdown_ = 1;
  Call ended_{};      // of the kernel that runs
  double since_ = 0;  // when `left_` was true of it; may lie ahead
  double left_ = 0;   // seconds, without slow-down
  Platform::Timer* end_ = nullptr;
};

}  // namespace ringspan::comm::simulated
