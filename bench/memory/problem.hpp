// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/ask/models.hpp"

namespace ringspan::bench {

/// A step whose activations are to be counted, on several numbers of ranks.
struct MemoryProblem {
  Model model;
  std::int64_t sequence_length = 1;
  std::int64_t batch = 1;
  std::int64_t tensor = 1;          // ranks that share heads and MLPs, with sequence parallelism
  std::vector<std::int64_t> ranks;  // multiples of `tensor`; tokens are cut among the quotient
};

/// Bytes of one rank on each number of ranks, 16 bits per element.
struct MemoryLine {
  std::string what;
  std::vector<double> bytes;  // [number of ranks]
};

/// What the published formulas say of it. Uneven shards count as the longest.
std::vector<MemoryLine> memory_lines(const MemoryProblem& problem);

}  // namespace ringspan::bench
