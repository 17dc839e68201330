// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace ringspan::attention::cpu {

struct PanelExtent {
  std::int64_t width;    // lanes: a multiple of the vector, at most InstructionSet::width
  std::int64_t queries;  // in the first lanes
  std::int64_t keys;
  std::int64_t lo, hi;  // the query in lane i sees key j iff lo <= j - i <= hi
};

/// What the panels of one block of attention have in common.
struct PanelShape {
  std::int64_t head_dim, value_dim;
  std::int64_t head_stride, value_stride;  // of packed rows: up to whole vectors
  std::optional<float> cap;                // of the logits, times log2(e)
};

/// A few queries, one to a vector lane, against a block of keys: the piece of attention that stays
/// in the nearest caches. Lanes behind the last query hold zeros and their results are ignored.
struct Panel : PanelExtent, PanelShape {
  const float* q_lanes;  // [head_dim][width], times scale * log2(e)
  const float* k;        // [keys][head_stride]
  const float* v;        // [keys][value_stride]
  float* weights;        // scratch, [keys][width]
};

/// Folds the keys into the running softmax of the queries; see Partial.
struct ForwardPanel : Panel {
  float* out_lanes;  // [value_dim][width]
  float* max;        // [width]
  float* sum;        // [width]
  float* decay;      // scratch, [width]
};

/// Adds to the gradients of the queries and of the keys.
struct BackwardPanel : Panel {
  const float* q;            // [queries][head_stride], as it came, zeros behind the last column
  const float* d_out;        // [queries][value_stride], the same
  const float* d_out_lanes;  // [value_dim][width]
  const float* lse;          // [width], times log2(e); +inf for rows that saw nothing
  const float* delta;        // [width]
  float scale;
  float* dq_lanes;   // [head_dim][width]
  float* dk;         // [keys][head_stride]
  float* dv;         // [keys][value_stride]
  float* d_weights;  // scratch, [keys][width]
};

/// to[j][i] = scale * from[i][j] for i < rows, j < columns; strides in floats.
using Transpose = void (*)(std::int64_t rows, std::int64_t columns, float scale, const float* from,
                           std::int64_t from_stride, float* to, std::int64_t to_stride);

/// The SIMD part, compiled once for every instruction set.
struct InstructionSet {
  std::int64_t lanes;  // floats in a vector
  std::int64_t width;  // queries in a full panel
  Transpose transpose;
  void (*forward)(const ForwardPanel&);
  void (*backward)(const BackwardPanel&);
};

/// The best that this machine has.
const InstructionSet& instruction_set();

}  // namespace ringspan::attention::cpu
