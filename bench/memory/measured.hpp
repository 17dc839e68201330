// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/memory_options.hpp"

namespace ringspan::bench {

/// What a small transformer takes on ranks that are threads, a sequence over a zigzag ring.
struct MeasuredProblem {
  std::int64_t sequence_length = 1;
  std::vector<std::int64_t> ranks;
};

/// A way to trade time for memory.
struct MemoryMode {
  std::string what;
  model::MemoryOptions options;
};
std::vector<MemoryMode> memory_modes();

/// Bytes of the rank that has most, in fp32, as its device counts them.
struct MeasuredMemory {
  double kept = 0;       // by each layer: what two more layers add, by two
  double formula = 0;    // model::kept_by_block
  double published = 0;  // Megatron-SP's layer, of 32 bits; with everything kept
  double peak = 0;       // of a pass forward and backward of three layers, but for their parameters
};
MeasuredMemory measure_memory(std::int64_t sequence_length, int ranks, const MemoryMode& mode);

}  // namespace ringspan::bench
