// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/primitives/primitive.hpp"

namespace ringspan::bench {

/// What came of one primitive at one size; the same on all ranks.
struct Timed {
  const Primitive* primitive = nullptr;
  std::int64_t bytes = 0, count = 0;  // see Operation
  std::string algorithm = {};
  std::string refusal = {};          // why it was not run; empty: it was
  int batch = 1;                     // runs that each iteration is the mean of
  std::vector<double> seconds = {};  // [iteration]: the maximum over ranks
  std::int64_t wrong = 0;            // elements, on all ranks
};

/// Times primitives of one size in turns. An iteration is: barrier, t0, `batch` runs, t1; its time
/// is (t1 - t0) / batch, the maximum over ranks. A batch takes two milliseconds of the fastest of
/// them or is one run, because ranks leave a barrier a message apart, which must not count. Data is
/// checked before and after. Collective.
std::vector<Timed> time_in_turns(const Setting& setting,
                                 std::span<const Primitive* const> primitives, int warmup,
                                 int repeats);

}  // namespace ringspan::bench
