// SPDX-License-Identifier: Apache-2.0
#include "bench/run/step_clock.hpp"

#include <algorithm>
#include <cstddef>

namespace ringspan::bench {

double hideable_seconds(std::span<const Step> communication, std::span<const Step> compute) {
  // In step t at most min(m_t, c_t) of the messages can pass behind kernels: no more than there is
  // to move, no more than there is to compute before the step must wait. Each second of message
  // belongs to one step, so the sum never exceeds the rank's M of this iteration, nor its mean over
  // ranks the largest M.
  double seconds = 0;
  for (std::size_t t = 0; t < std::min(communication.size(), compute.size()); ++t) {
    seconds += std::min(communication[t].message_seconds, compute[t].kernel_seconds);
  }
  return seconds;
}

}  // namespace ringspan::bench
