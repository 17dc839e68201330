// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::model {

/// Of the scores of attention the backward pass finds all that it needs, nothing (it recomputes
/// them: Megatron's selective recomputing), or the lse that a flash kernel keeps.
enum class KeptScores { all, none, lse };

/// One transformer layer and one micro-batch, as far as they are on one rank.
struct LayerShare {
  std::int64_t tokens = 0;           // that products work on
  std::int64_t residual_tokens = 0;  // that norms and residuals work on: `tokens`, or with
                                     // Megatron's sequence parallelism their tensor-th part
  std::int64_t keys = 0;             // that each token has scores with: the sequence length
  std::int64_t hidden = 0;           // whole
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of this rank
  std::int64_t mlp_hidden = 0;                         // of this rank
  bool gated = false;                                  // three products in the MLP, not two
  bool dropout = false;
  KeptScores scores = KeptScores::all;
};

/// Bytes, by part of the layer.
struct LayerBytes {
  double norms = 0;      // what goes into both of them
  double attention = 0;  // its input, q, k, v, out, mask of dropout behind it
  double scores = 0;     // after softmax, dropout's mask, and after it; or the lse
  double mlp = 0;        // its input, what goes into the activation and comes out; dropout's mask

  double total() const { return norms + attention + scores + mlp; }
};

/// What a layer keeps for its backward pass with 16-bit activations and 8-bit masks: Korthikanti et
/// al. (arXiv 2205.05198), section 4, term by term, so that it also holds for grouped KV heads,
/// gated MLPs and sequence-parallel ranks. Their layer, with s tokens, b samples, h hidden, a heads
/// and t tensor-parallel ranks:
///   eq. 1  on one rank           sbh (34 + 5as/h): attention 11sbh + 5as^2b, MLP 19sbh, norms 4sbh
///   eq. 2  tensor parallel       sbh (10 + 24/t + 5as/(ht))
///   eq. 4  sequence parallel     sbh/t (34 + 5as/h)
///   table 2, scores recomputed   without the term 5as/h
LayerBytes layer_activation_bytes(const LayerShare& share);

/// What is kept of a layer that is recomputed as a whole: its input, 2sbh.
double layer_input_bytes(const LayerShare& share);

/// Micro-batches of 1F1B that a stage, counted from 0, has begun and not ended, in units of all its
/// layers. With v chunks per stage it begins those before its last one for p micro-batches, then
/// runs ahead twice as far as the end is away: on the first (1 + (p - 1) / (p v)) p (eq. 5 and
/// section 4.2.3). At most as many as there are.
double micro_batches_in_flight(int pipeline, int interleave, int stage, std::int64_t micro_batches);

}  // namespace ringspan::model
