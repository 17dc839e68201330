// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace ringspan::bench {

/// Seconds of the four runs of one plan, [iteration]; each is the maximum over ranks, and the four
/// of one iteration were measured one after the other. C, S, M and O in the formulas.
struct Times {
  std::vector<double> compute;        // C: no messages at all
  std::vector<double> synchronised;   // S: the same with empty messages, so that ranks wait
  std::vector<double> communication;  // M: full messages, no attention, packing included
  std::vector<double> overlapped;     // O: everything

  // Kernel seconds less polling, summed over ranks; none: not known.
  std::vector<double> kernel_compute;     // in C
  std::vector<double> kernel_overlapped;  // in O

  std::vector<double> hideable;  // seconds, mean over ranks; none: not known

  bool exact = false;  // virtual time: there is no noise, and one iteration tells all
};

}  // namespace ringspan::bench
