// SPDX-License-Identifier: Apache-2.0
// Attention of one panel, compiled for every instruction set and chosen at run time.
#include "attention/kernels/cpu_panel.hpp"

// Vectors whose size is unknown when compiling cannot be kept in arrays of registers.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels/cpu_panel.cpp"
#include "hwy/foreach_target.h"
// The order matters.
#include "attention/kernels/cpu_band-inl.hpp"
#include "attention/kernels/cpu_softmax-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringspan::attention::cpu {
namespace HWY_NAMESPACE {

// A 4 x 4 block, or what is left of one at the edges.
HWY_INLINE void transpose_block(std::int64_t rows, std::int64_t columns, float scale,
                                const float* from, std::int64_t from_stride, float* to,
                                std::int64_t to_stride) {
#if HWY_TARGET != HWY_SCALAR  // which has no vectors of four
  if (rows >= 4 && columns >= 4) {
    const hn::FixedTag<float, 4> four;
    const auto factor = hn::Set(four, scale);
    const auto a = hn::Mul(hn::LoadU(four, from), factor);
    const auto b = hn::Mul(hn::LoadU(four, from + from_stride), factor);
    const auto c = hn::Mul(hn::LoadU(four, from + 2 * from_stride), factor);
    const auto d = hn::Mul(hn::LoadU(four, from + 3 * from_stride), factor);
    const auto ac_low = hn::InterleaveLower(four, a, c), ac_high = hn::InterleaveUpper(four, a, c);
    const auto bd_low = hn::InterleaveLower(four, b, d), bd_high = hn::InterleaveUpper(four, b, d);
    hn::StoreU(hn::InterleaveLower(four, ac_low, bd_low), four, to);
    hn::StoreU(hn::InterleaveUpper(four, ac_low, bd_low), four, to + to_stride);
    hn::StoreU(hn::InterleaveLower(four, ac_high, bd_high), four, to + 2 * to_stride);
    hn::StoreU(hn::InterleaveUpper(four, ac_high, bd_high), four, to + 3 * to_stride);
    return;
  }
#endif
  for (std::int64_t i = 0; i < rows && i < 4; ++i) {
    for (std::int64_t j = 0; j < columns && j < 4; ++j) {
      to[j * to_stride + i] = scale * from[i * from_stride + j];
    }
  }
}

// Goes along the rows of the side whose rows lie further apart: many of them at once would fall
// into the same few sets of the nearest cache.
void transpose(std::int64_t rows, std::int64_t columns, float scale, const float* from,
               std::int64_t from_stride, float* to, std::int64_t to_stride) {
  const auto block = [&](std::int64_t i, std::int64_t j) HWY_ATTR {
    transpose_block(rows - i, columns - j, scale, from + i * from_stride + j, from_stride,
                    to + j * to_stride + i, to_stride);
  };
  if (from_stride >= to_stride) {
    for (std::int64_t i = 0; i < rows; i += 4) {
      for (std::int64_t j = 0; j < columns; j += 4) block(i, j);
    }
  } else {
    for (std::int64_t j = 0; j < columns; j += 4) {
      for (std::int64_t i = 0; i < rows; i += 4) block(i, j);
    }
  }
}

// logits[keys][width] = K Q^T, capped
void compute_logits(const Panel& panel) {
  multiply<Contiguous::depth>(panel.keys, panel.width,
                              {panel.head_dim, panel.k, panel.head_stride, panel.q_lanes,
                               panel.width, panel.weights, panel.width, Start::zero, nullptr});
  if (panel.cap) cap_logits(panel);
}

PackedMatrix head_rows(const Panel& panel, const float* rows) {
  return {rows, panel.head_dim, panel.head_stride};
}
PackedMatrix value_rows(const Panel& panel, const float* rows) {
  return {rows, panel.value_dim, panel.value_stride};
}

void forward(const ForwardPanel& panel) {
  compute_logits(panel);
  mask(panel, panel.weights, -kInfinity);
  softmax(panel);
  // out^T = decay * out^T + V^T P
  sum_over_keys(panel, value_rows(panel, panel.v), panel.weights, panel.out_lanes, Start::scaled,
                panel.decay);
}

void backward(const BackwardPanel& panel) {
  compute_logits(panel);
  // d_weights[keys][width] = V d_out^T
  multiply<Contiguous::depth>(panel.keys, panel.width,
                              {panel.value_dim, panel.v, panel.value_stride, panel.d_out_lanes,
                               panel.width, panel.d_weights, panel.width, Start::zero, nullptr});
  panel.cap ? softmax_gradient<true>(panel) : softmax_gradient<false>(panel);
  // Only here, since a row whose lse is NaN has no other weights.
  mask(panel, panel.weights, 0);
  mask(panel, panel.d_weights, 0);
  // dv += P d_out, dk += dS q, dq^T += K^T dS
  sum_over_lanes(panel, value_rows(panel, panel.d_out), panel.weights, panel.dv);
  sum_over_lanes(panel, head_rows(panel, panel.q), panel.d_weights, panel.dk);
  sum_over_keys(panel, head_rows(panel, panel.k), panel.d_weights, panel.dq_lanes, Start::held,
                nullptr);
}

const InstructionSet* compiled() {
  static constexpr InstructionSet kSet = {kLanes, kVectors * kLanes, transpose, forward, backward};
  return &kSet;
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::attention::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringspan::attention::cpu {

HWY_EXPORT(compiled);

const InstructionSet& instruction_set() { return *HWY_DYNAMIC_DISPATCH(compiled)(); }

}  // namespace ringspan::attention::cpu
#endif
