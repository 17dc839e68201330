// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "attention/kernels/cuda/matrix.cuh"

// A block keeps 64 queries of one head and walks over the keys that any of them sees, the next keys
// on their way while these are multiplied (FlashAttention-2, arXiv 2307.08691, algorithm 1; here
// the running output is a Partial that outlives the launch).
namespace ringspan::attention::cuda {

constexpr RINGSPAN_DEVICE std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr RINGSPAN_DEVICE std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

/// A logit from q.k: its value, and its derivative by scale * q.k.
struct ScaledLogit {
  float value, slope;
};

RINGSPAN_DEVICE ScaledLogit scaled_logit(const AttentionArguments& arguments, float dot) {
  const float s = arguments.scale * dot;
  if (arguments.softcap == 0) return {s, 1};
  const float t = tanhf(s / arguments.softcap);
  return {arguments.softcap * t, 1 - t * t};
}

/// The band of a tile, of the pairs that one step multiplies: row and column count from the first
/// of the rows that stay and of the columns that pass by. Row r sees column c iff lo <= c - r <=
/// hi.
struct StepBand {
  int lo, hi, columns;

  RINGSPAN_DEVICE StepBand(std::int64_t lo, std::int64_t hi, std::int64_t columns)
      : lo(within_step(lo)), hi(within_step(hi)), columns(within_step(columns)) {}

  RINGSPAN_DEVICE bool sees(int row, int column) const {
    return column < columns && lo <= column - row && column - row <= hi;
  }

 private:
  /// The same for all that compares it with differences of rows of a step.
  RINGSPAN_DEVICE static int within_step(std::int64_t distance) {
    return static_cast<int>(larger(-2 * kRows, smaller(distance, 2 * kRows)));
  }
};

template <int kDim>
struct ForwardMemory {
  Matrix<kRows, kDim> q;
  Matrix<kStep<kDim>, kDim> k[2], v[2];  // of this step and the next
};

/// Online softmax of two rows of a thread's scores: raises the maximum, turns scores into weights.
template <int kSteps, int kColumns>
RINGSPAN_DEVICE void fold_scores(float (&scores)[kSteps][4], float (&max)[2], float (&sum)[2],
                                 float (&out)[kColumns][4]) {
  RINGSPAN_UNROLL
  for (int half = 0; half < 2; ++half) {
    float raised = max[half];
    RINGSPAN_UNROLL
    for (int n = 0; n < kSteps; ++n) {
      raised = fmaxf(raised, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    raised = fmaxf(raised, shuffle_xor(raised, 1));
    raised = fmaxf(raised, shuffle_xor(raised, 2));
    const float base = raised == -INFINITY ? 0 : raised;  // nothing seen yet
    const float keep = exp2f(max[half] - base);
    float seen = 0;
    RINGSPAN_UNROLL
    for (int n = 0; n < kSteps; ++n) {
      RINGSPAN_UNROLL
      for (int odd = 0; odd < 2; ++odd) {
        float& score = scores[n][2 * half + odd];
        score = exp2f(score - base);
        seen += score;
      }
    }
    seen += shuffle_xor(seen, 1);
    seen += shuffle_xor(seen, 2);
    max[half] = raised;
    sum[half] = keep * sum[half] + seen;
    RINGSPAN_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      out[n][2 * half] *= keep;
      out[n][2 * half + 1] *= keep;
    }
  }
}

/// Grid: [batch][heads][blocks of kRows queries of the tile], as z, y, x; kThreads threads;
/// sizeof(ForwardMemory<kDim>) bytes of shared memory. Needs head_dim and value_dim <= kDim.
template <Half kHalf, int kDim>
RINGSPAN_DEVICE void attention_forward(const AttentionArguments& arguments) {
  constexpr int kKeys = kStep<kDim>;
  auto& memory = *reinterpret_cast<ForwardMemory<kDim>*>(shared_memory());
  const TileRows& tile = arguments.tile;
  const std::int64_t batch = block_index().z, head = block_index().y;
  const std::int64_t kv_head = head / arguments.heads_per_kv_head;
  const std::int64_t first = std::int64_t{block_index().x} * kRows;
  const std::int64_t queries = smaller(kRows, tile.queries - first);
  const std::int64_t token = tile.query_first + first * tile.query_step;
  const std::int64_t begin = larger(0, first + tile.lo);
  const std::int64_t end = smaller(tile.keys, first + queries + tile.hi);

  bring_rows(arguments.q, offset(arguments.q, batch, token, head), tile.query_step, queries,
             arguments.head_dim, arguments.aligned, memory.q);
  const auto bring_keys = [&](std::int64_t key, int slot) {
    const std::int64_t key_token = tile.key_first + key * tile.key_step;
    bring_rows(arguments.k, offset(arguments.k, batch, key_token, kv_head), tile.key_step,
               end - key, arguments.head_dim, arguments.aligned, memory.k[slot]);
    bring_rows(arguments.v, offset(arguments.v, batch, key_token, kv_head), tile.key_step,
               end - key, arguments.value_dim, arguments.aligned, memory.v[slot]);
  };
  if (begin < end) bring_keys(begin, 0);
  commit_copies();

  float out[kDim / 8][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const std::int64_t out_start = offset(arguments.out, batch, token, head);
  access_sums<Access::load>(arguments.out, out_start, tile.query_step, queries, 0,
                            arguments.value_dim, 1, out);
  const auto row_value = [&](const Strided<void>& tensor, int half) -> float& {
    return static_cast<float*>(
        tensor.data)[offset(tensor, batch, token + OwnRows::row(half) * tile.query_step, head)];
  };
  for (int half = 0; half < 2; ++half) {
    if (OwnRows::row(half) >= queries) continue;
    max[half] = row_value(arguments.max, half);
    sum[half] = row_value(arguments.sum, half);
  }

  int slot = 0;
  for (std::int64_t key = begin; key < end; key += kKeys, slot ^= 1) {
    if (key + kKeys < end) bring_keys(key + kKeys, slot ^ 1);
    commit_copies();
    wait_copies<1>();
    sync_threads();
    float scores[kKeys / 8][4] = {};
    multiply_rows<kHalf>(memory.q, static_cast<int>(thread_index()) / 32 * 16, memory.k[slot],
                         arguments.head_dim, scores);
    const StepBand band(tile.lo - (key - first), tile.hi - (key - first), end - key);
    RINGSPAN_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      RINGSPAN_UNROLL
      for (int e = 0; e < 4; ++e) {
        const bool visible = band.sees(OwnRows::row(e / 2), OwnRows::column(n, e % 2));
        scores[n][e] = visible ? scaled_logit(arguments, scores[n][e]).value * kLog2e : -INFINITY;
      }
    }
    fold_scores(scores, max, sum, out);
    multiply_columns<kHalf>(scores, memory.v[slot], 0, arguments.value_dim, out);
    sync_threads();  // nobody reads this slot any more
  }

  access_sums<Access::store>(arguments.out, out_start, tile.query_step, queries, 0,
                             arguments.value_dim, 1, out);
  for (int half = 0; half < 2; ++half) {
    if (OwnRows::row(half) >= queries || thread_index() % 4 != 0) continue;
    row_value(arguments.max, half) = max[half];
    row_value(arguments.sum, half) = sum[half];
  }
}

}  // namespace ringspan::attention::cuda
