// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/cuda/attention_forward.cuh"

// Two kernels, so that each sum belongs to one block and has one order: the first keeps queries and
// walks over keys for dq, the second keeps keys and walks over the queries of all heads of their
// group for dk and dv. Both compute the weights again from lse. Heads wider than 128 elements are
// walked over once per 128 columns of the gradients, whose sums would not fit the registers.
namespace ringspan::attention::cuda {

/// Columns of a gradient that a block sums up.
template <int kDim>
constexpr int kGradientColumns = kDim < 128 ? kDim : 128;
template <int kDim>
constexpr int kSlices = kDim / kGradientColumns<kDim>;

/// The walk of either kernel: two tensors that stay and two that pass by.
template <int kDim>
struct BackwardMemory {
  Matrix<kRows, kDim> keys_side, values_side;                    // q and d_out, or k and v
  Matrix<kStep<kDim>, kDim> passing_keys[2], passing_values[2];  // k and v, or q and d_out
};

/// In place: p from q.k, and ds, yet without the scale, from d_out.v.
RINGSPAN_DEVICE void differentiate(const AttentionArguments& arguments, bool visible, float lse,
                                   float delta, float& dot_to_p, float& dp_to_ds) {
  const ScaledLogit logit = scaled_logit(arguments, dot_to_p);
  const bool weighs = visible && lse != -INFINITY;
  const float x = (logit.value - lse) * kLog2e;
  const float p = weighs ? exp2f(x > 0 ? 0 : x) : 0;  // lse is rounded; NaN stays
  dp_to_ds = weighs ? p * (dp_to_ds - delta) * logit.slope : 0;
  dot_to_p = p;
}

RINGSPAN_DEVICE float row_constant(const Strided<const void>& tensor, std::int64_t batch,
                                   std::int64_t token, std::int64_t head) {
  return static_cast<const float*>(tensor.data)[offset(tensor, batch, token, head)];
}

/// Grid: [batch * kSlices<kDim>][heads][blocks of kRows queries]; sizeof(BackwardMemory<kDim>).
template <Half kHalf, int kDim>
RINGSPAN_DEVICE void attention_backward_queries(const AttentionArguments& arguments) {
  constexpr int kKeys = kStep<kDim>;
  auto& memory = *reinterpret_cast<BackwardMemory<kDim>*>(shared_memory());
  const TileRows& tile = arguments.tile;
  const std::int64_t batch = block_index().z / kSlices<kDim>, head = block_index().y;
  const int column = static_cast<int>(block_index().z % kSlices<kDim>) * kGradientColumns<kDim>;
  const std::int64_t kv_head = head / arguments.heads_per_kv_head;
  const std::int64_t first = std::int64_t{block_index().x} * kRows;
  const std::int64_t queries = smaller(kRows, tile.queries - first);
  const std::int64_t token = tile.query_first + first * tile.query_step;
  const std::int64_t begin = larger(0, first + tile.lo);
  const std::int64_t end = smaller(tile.keys, first + queries + tile.hi);

  const auto bring = [&](const Strided<const void>& from, std::int64_t from_token,
                         std::int64_t from_head, std::int64_t step, std::int64_t count, int dim,
                         auto& to) {
    bring_rows(from, offset(from, batch, from_token, from_head), step, count, dim,
               arguments.aligned, to);
  };
  const auto bring_keys = [&](std::int64_t key, int slot) {
    const std::int64_t from = tile.key_first + key * tile.key_step;
    bring(arguments.k, from, kv_head, tile.key_step, end - key, arguments.head_dim,
          memory.passing_keys[slot]);
    bring(arguments.v, from, kv_head, tile.key_step, end - key, arguments.value_dim,
          memory.passing_values[slot]);
  };
  bring(arguments.q, token, head, tile.query_step, queries, arguments.head_dim, memory.keys_side);
  bring(arguments.d_out, token, head, tile.query_step, queries, arguments.value_dim,
        memory.values_side);
  if (begin < end) bring_keys(begin, 0);
  commit_copies();

  float lse[2] = {-INFINITY, -INFINITY}, delta[2] = {};
  for (int half = 0; half < 2; ++half) {
    if (OwnRows::row(half) >= queries) continue;
    const std::int64_t row = token + OwnRows::row(half) * tile.query_step;
    lse[half] = row_constant(arguments.lse, batch, row, head);
    delta[half] = row_constant(arguments.delta, batch, row, head);
  }

  const int warp_row = static_cast<int>(thread_index()) / 32 * 16;
  float dq[kGradientColumns<kDim> / 8][4] = {};
  int slot = 0;
  for (std::int64_t key = begin; key < end; key += kKeys, slot ^= 1) {
    if (key + kKeys < end) bring_keys(key + kKeys, slot ^ 1);
    commit_copies();
    wait_copies<1>();
    sync_threads();
    float p[kKeys / 8][4] = {}, ds[kKeys / 8][4] = {};
    multiply_rows<kHalf>(memory.keys_side, warp_row, memory.passing_keys[slot], arguments.head_dim,
                         p);
    multiply_rows<kHalf>(memory.values_side, warp_row, memory.passing_values[slot],
                         arguments.value_dim, ds);
    const StepBand band(tile.lo - (key - first), tile.hi - (key - first), end - key);
    RINGSPAN_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      RINGSPAN_UNROLL
      for (int e = 0; e < 4; ++e) {
        const bool visible = band.sees(OwnRows::row(e / 2), OwnRows::column(n, e % 2));
        differentiate(arguments, visible, lse[e / 2], delta[e / 2], p[n][e], ds[n][e]);
      }
    }
    multiply_columns<kHalf>(ds, memory.passing_keys[slot], column, arguments.head_dim, dq);
    sync_threads();
  }
  access_sums<Access::add>(arguments.dq, offset(arguments.dq, batch, token, head), tile.query_step,
                           queries, column, arguments.head_dim, arguments.scale, dq);
}

/// Grid: [batch * kSlices<kDim>][kv_heads][blocks of kRows keys]; sizeof(BackwardMemory<kDim>).
template <Half kHalf, int kDim>
RINGSPAN_DEVICE void attention_backward_keys(const AttentionArguments& arguments) {
  constexpr int kQueries = kStep<kDim>;
  auto& memory = *reinterpret_cast<BackwardMemory<kDim>*>(shared_memory());
  const TileRows& tile = arguments.tile;
  const std::int64_t batch = block_index().z / kSlices<kDim>, kv_head = block_index().y;
  const int column = static_cast<int>(block_index().z % kSlices<kDim>) * kGradientColumns<kDim>;
  const std::int64_t first = std::int64_t{block_index().x} * kRows;
  const std::int64_t keys = smaller(kRows, tile.keys - first);
  const std::int64_t token = tile.key_first + first * tile.key_step;
  const std::int64_t begin = larger(0, first - tile.hi);
  const std::int64_t end = smaller(tile.queries, first + keys - tile.lo);
  // The queries of each head in turn: step n is of head n / steps_per_head of the group.
  const std::int64_t steps_per_head = begin < end ? (end - begin + kQueries - 1) / kQueries : 0;
  const std::int64_t steps = steps_per_head * arguments.heads_per_kv_head;
  const auto head_of = [&](std::int64_t n) {
    return kv_head * arguments.heads_per_kv_head + n / steps_per_head;
  };
  const auto query_of = [&](std::int64_t n) { return begin + n % steps_per_head * kQueries; };

  const auto bring = [&](const Strided<const void>& from, std::int64_t from_token,
                         std::int64_t from_head, std::int64_t step, std::int64_t count, int dim,
                         auto& to) {
    bring_rows(from, offset(from, batch, from_token, from_head), step, count, dim,
               arguments.aligned, to);
  };
  const auto bring_queries = [&](std::int64_t n, int slot) {
    const std::int64_t query = query_of(n), from = tile.query_first + query * tile.query_step;
    bring(arguments.q, from, head_of(n), tile.query_step, end - query, arguments.head_dim,
          memory.passing_keys[slot]);
    bring(arguments.d_out, from, head_of(n), tile.query_step, end - query, arguments.value_dim,
          memory.passing_values[slot]);
  };
  bring(arguments.k, token, kv_head, tile.key_step, keys, arguments.head_dim, memory.keys_side);
  bring(arguments.v, token, kv_head, tile.key_step, keys, arguments.value_dim, memory.values_side);
  if (steps > 0) bring_queries(0, 0);
  commit_copies();

  const int warp_row = static_cast<int>(thread_index()) / 32 * 16;
  float dk[kGradientColumns<kDim> / 8][4] = {}, dv[kGradientColumns<kDim> / 8][4] = {};
  for (std::int64_t n = 0; n < steps; ++n) {
    const int slot = static_cast<int>(n % 2);
    if (n + 1 < steps) bring_queries(n + 1, slot ^ 1);
    commit_copies();
    wait_copies<1>();
    sync_threads();
    float p[kQueries / 8][4] = {}, ds[kQueries / 8][4] = {};
    multiply_rows<kHalf>(memory.keys_side, warp_row, memory.passing_keys[slot], arguments.head_dim,
                         p);
    multiply_rows<kHalf>(memory.values_side, warp_row, memory.passing_values[slot],
                         arguments.value_dim, ds);
    const std::int64_t query = query_of(n);
    const StepBand band(first - query - tile.hi, first - query - tile.lo, end - query);
    RINGSPAN_UNROLL
    for (int m = 0; m < kQueries / 8; ++m) {
      RINGSPAN_UNROLL
      for (int odd = 0; odd < 2; ++odd) {
        const int query_column = OwnRows::column(m, odd);
        const std::int64_t row =
            tile.query_first + smaller(query + query_column, end - 1) * tile.query_step;
        const float lse = row_constant(arguments.lse, batch, row, head_of(n));
        const float delta = row_constant(arguments.delta, batch, row, head_of(n));
        RINGSPAN_UNROLL
        for (int half = 0; half < 2; ++half) {
          const bool visible = band.sees(OwnRows::row(half), query_column);
          differentiate(arguments, visible, lse, delta, p[m][2 * half + odd],
                        ds[m][2 * half + odd]);
        }
      }
    }
    multiply_columns<kHalf>(p, memory.passing_values[slot], column, arguments.value_dim, dv);
    multiply_columns<kHalf>(ds, memory.passing_keys[slot], column, arguments.head_dim, dk);
    sync_threads();
  }
  access_sums<Access::add>(arguments.dk, offset(arguments.dk, batch, token, kv_head), tile.key_step,
                           keys, column, arguments.head_dim, arguments.scale, dk);
  access_sums<Access::add>(arguments.dv, offset(arguments.dv, batch, token, kv_head), tile.key_step,
                           keys, column, arguments.value_dim, 1, dv);
}

}  // namespace ringspan::attention::cuda
