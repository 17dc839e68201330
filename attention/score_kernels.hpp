// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"

namespace ringspan::attention {

/// Attention with its scores in memory, a matrix product at a time, as it was done before
/// FlashAttention. Scores are s * log2(e) of every query and key, in accumulator(dtype):
/// [batch][tokens][heads][keys]; those of a block are the columns of its keys. What the mask hides
/// is neither read nor written, except that the maximum is of whole rows: there must be -inf.
class ScoreKernels {
 public:
  virtual ~ScoreKernels() = default;

  /// As Kernels::prepare(), whose workspace_bytes() then count this workspace, too.
  virtual void prepare(const Shape& shape) = 0;

  /// The scores of q and k.
  virtual void scores(const ForwardBlock& block, const TensorView& scores) = 0;

  /// partial.max, over all keys.
  virtual void max_rows(const ConstTensorView& scores, const Partial& partial) = 0;

  /// With w = 2^(scores - max): partial.out += w v, partial.sum += w.
  virtual void weigh(const ConstTensorView& scores, const ForwardBlock& block,
                     const Partial& partial) = 0;

  /// With p and ds of Kernels::backward(): dv += p d_out, d_scores = scale * ds.
  virtual void backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                               const TensorView& dv, const TensorView& d_scores) = 0;

  /// dq += d_scores k, dk += d_scores q.
  virtual void backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                             const TensorView& dq, const TensorView& dk) = 0;
};

}  // namespace ringspan::attention
