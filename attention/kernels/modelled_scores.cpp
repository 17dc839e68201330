// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/modelled_scores.hpp"

#include <algorithm>

namespace ringspan::attention {

/// So many products of two numbers, each added to a sum.
void ModelledScores::compute(std::int64_t products, std::int64_t bytes, std::string_view kernel) {
  const double multiplying = 2.0 * static_cast<double>(products) / gpu_.flops_per_second;
  const double moving = static_cast<double>(bytes) / gpu_.memory_bytes_per_second;
  if (bytes > 0) device_.compute(std::max(multiplying, moving), kernel);
}

void ModelledScores::scores(const ForwardBlock& block, const TensorView& scores) {
  if (block.tiles.empty()) return;
  compute(scores.elements() * block.q.head_dim, block.q.bytes() + block.k.bytes() + scores.bytes(),
          "scores");
}

void ModelledScores::max_rows(const ConstTensorView& scores, const Partial& partial) {
  compute(0, scores.bytes() + partial.max.bytes(), "score_maxima");
}

void ModelledScores::weigh(const ConstTensorView& scores, const ForwardBlock& block,
                           const Partial& partial) {
  if (block.tiles.empty()) return;
  compute(scores.elements() * block.v.head_dim,
          scores.bytes() + block.v.bytes() + 2 * partial.out.bytes(), "weigh");
}

void ModelledScores::backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                                     const TensorView& dv, const TensorView& d_scores) {
  if (block.tiles.empty()) return;
  const std::int64_t product = scores.elements() * block.v.head_dim;
  compute(product, scores.bytes() + block.d_out.bytes() + 2 * dv.bytes(), "value_gradients");
  compute(product, scores.bytes() + block.d_out.bytes() + block.v.bytes() + d_scores.bytes(),
          "score_gradients");
}

void ModelledScores::backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                                   const TensorView& dq, const TensorView& dk) {
  if (block.tiles.empty()) return;
  const std::int64_t product = d_scores.elements() * block.k.head_dim;
  compute(product, d_scores.bytes() + block.k.bytes() + 2 * dq.bytes(), "query_gradients");
  compute(product, d_scores.bytes() + block.q.bytes() + 2 * dk.bytes(), "key_gradients");
}

}  // namespace ringspan::attention
