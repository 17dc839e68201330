// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::bench {

/// How many of its S bytes a rank has to send, at the least, over its own link: what turns algbw
/// into busbw, which compares with the speed of that link whatever the primitive and the number of
/// ranks. The factors of nccl-tests.
enum class BusFactor {
  none,        // no data is moved
  one,         // one message, a hop, a broadcast: all of S
  others,      // all but the own of n parts: (n - 1) / n
  two_others,  // all_reduce, both halves of it: 2 (n - 1) / n
};
double value(BusFactor factor, int ranks);

/// Bytes per second.
struct Bandwidth {
  double algorithm = 0;  // algbw = S / t
  double bus = 0;        // busbw = algbw * factor
};
Bandwidth bandwidth(BusFactor factor, int ranks, std::int64_t bytes, double seconds);

}  // namespace ringspan::bench
