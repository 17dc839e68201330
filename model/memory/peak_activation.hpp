// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::model {

/// How far attention and the MLP of a layer are cut into blocks: not at all; attention; both
/// (blockwise parallel transformer, arXiv 2305.19370); both, with a block of the sequence on each
/// device (Ring Attention, arXiv 2310.01889).
enum class Blocking { none, attention, both, ring };

struct PeakShape {
  std::int64_t batch = 1;     // b
  std::int64_t sequence = 0;  // s
  std::int64_t block = 0;     // c, tokens
  std::int64_t heads = 0;     // n
  std::int64_t hidden = 0;    // h
};

/// Bytes of the largest activations of a layer, 16 bits each (Ring Attention, table 1, whose
/// "2bhs^2" for scores must be 2bns^2).
struct PeakActivation {
  double attention = 0, mlp = 0;
  double most() const { return attention > mlp ? attention : mlp; }
};

///   none       2bns^2        8bsh
///   attention  2bsh + 4bch   8bsh
///   both       2bsh          2bsh
///   ring       6bch          2bch
PeakActivation peak_activation(Blocking blocking, const PeakShape& shape);

}  // namespace ringspan::model
