// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/point.hpp"

namespace ringspan::bench {

/// Memory that all ranks of a point take together: inputs, outputs, and what the plan of its
/// schedule allocates in the worst case of the mask. Kernel workspace is not in it. A double,
/// because what is refused may exceed 64 bits.
double bytes_needed(const Point& point);

}  // namespace ringspan::bench
