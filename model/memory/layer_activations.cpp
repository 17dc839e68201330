// SPDX-License-Identifier: Apache-2.0
#include "model/memory/layer_activations.hpp"

#include <algorithm>

namespace ringspan::model {
namespace {

constexpr double kElement = 2;  // bytes

/// After softmax 2 bytes, the mask of dropout 1, what is left 2.
double score_bytes(const LayerShare& share) {
  const double rows = static_cast<double>(share.tokens) * static_cast<double>(share.heads);
  switch (share.scores) {
    case KeptScores::none: return 0;
    case KeptScores::lse: return 4 * rows;
    case KeptScores::all: break;
  }
  return rows * static_cast<double>(share.keys) * (share.dropout ? 5 : 2);
}

}  // namespace

LayerBytes layer_activation_bytes(const LayerShare& share) {
  const auto tokens = static_cast<double>(share.tokens);
  const double residual = static_cast<double>(share.residual_tokens * share.hidden);
  const double input = kElement * residual + (share.dropout ? residual : 0);
  const auto heads = static_cast<double>((2 * share.heads + 2 * share.kv_heads) * share.head_dim);
  const auto mlp = static_cast<double>((share.gated ? 3 : 2) * share.mlp_hidden);
  return {.norms = 2 * kElement * residual,
          .attention = input + kElement * tokens * heads,
          .scores = score_bytes(share),
          .mlp = input + kElement * tokens * mlp};
}

double layer_input_bytes(const LayerShare& share) {
  return kElement * static_cast<double>(share.residual_tokens * share.hidden);
}

double micro_batches_in_flight(int pipeline, int interleave, int stage,
                               std::int64_t micro_batches) {
  const double p = pipeline, v = interleave, to_end = p - 1 - stage;
  const double most = interleave > 1 ? ((v - 1) * p + 1 + 2 * to_end) / v : 1 + to_end;
  return std::min(most, static_cast<double>(micro_batches));
}

}  // namespace ringspan::model
