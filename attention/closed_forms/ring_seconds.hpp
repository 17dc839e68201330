// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace ringspan::attention {

/// From when to when a message is under way.
struct UnderWay {
  double start = 0, end = 0;
};

/// When work of so many seconds that begins at `start` ends, if it runs at 1 / slowdown of its
/// speed whenever any of the messages is under way.
double end_of_work(double start, double work, double slowdown, std::vector<UnderWay> messages);

/// What one rank does in one step of a ring. A message that takes no time is none.
struct RingStepSeconds {
  double work = 0;      // of kernels on the block that is here
  double kv = 0;        // of the message to the next rank, which starts with the work
  double adding = 0;    // of kernels once the work and the gradients of the step before are done
  double gradient = 0;  // of the message that starts then,
  int gradient_to = 0;  // and to whom
};

/// When each rank has ended the last step of a ring, [rank], from its steps alone, [rank][step]. A
/// message starts when both of its ranks are there, and a step, which waits for its kv messages
/// both ways, ends with all but its gradient messages; the next one waits for them.
std::vector<double> ring_seconds(const std::vector<std::vector<RingStepSeconds>>& steps,
                                 double slowdown);

}  // namespace ringspan::attention
