// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace ringspan::bench {

/// One step of a rank: up to the end of a wait. Seconds spent posting and waiting for messages, and
/// in kernels while a message was in flight.
struct Step {
  double message_seconds = 0;
  double kernel_seconds = 0;
  bool waited = false;  // for messages, which a test had not found there
};

/// Where one rank's time goes in one pass: told of every post, wait and kernel, it splits the pass
/// into steps, each up to the end of a wait.
class StepClock {
 public:
  void reset() { *this = {}; }

  void posted(double seconds) {
    step_.message_seconds += seconds;
    ++in_flight_;
  }

  /// `for_messages`: there were any, and they were not found there by a test.
  void waited(double seconds, bool for_messages = false) {
    step_.message_seconds += seconds;
    step_.waited = for_messages;
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

/// Seconds of one rank's messages that the order of its posts, kernels and waits could hide at
/// best: from the steps of the same rank in M and in C.
double hideable_seconds(std::span<const Step> communication, std::span<const Step> compute);

}  // namespace ringspan::bench
