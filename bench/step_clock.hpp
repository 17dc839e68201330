// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench/metrics.hpp"

namespace ringspan::bench {

/// Where one rank's time goes in one pass: told of every post, wait and kernel, it splits the pass
/// into steps, each up to the end of a wait.
class StepClock {
 public:
  void reset() { *this = {}; }

  void posted(double seconds) {
    step_.message_seconds += seconds;
    ++in_flight_;
  }

  void waited(double seconds) {
    step_.message_seconds += seconds;
    --in_flight_;
    steps_.push_back(step_);
    step_ = {};
  }

  void computed(double seconds) {
    kernel_seconds_ += seconds;
    if (in_flight_ > 0) step_.kernel_seconds += seconds;
  }

  const std::vector<Step>& steps() const { return steps_; }
  double kernel_seconds() const { return kernel_seconds_; }

 private:
  std::vector<Step> steps_;
  Step step_;
  double kernel_seconds_ = 0;
  int in_flight_ = 0;
};

}  // namespace ringspan::bench
