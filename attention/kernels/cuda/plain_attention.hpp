// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numbers>

#include "attention/kernels/cuda/rows.hpp"
#include "attention/tile.hpp"

// Attention without tensor cores, for what these cannot multiply: fp32, fp64 and heads of any
// width. A thread per row of a result, which stays in global memory and is touched once per kPanel
// of what it meets; sums and weights are accumulators. Runs on the host, too; see movement.hpp.
namespace ringspan::attention::cuda {

/// Pairs of a row whose weights a thread holds at once.
inline constexpr int kPanel = 16;

/// One tile of a block, forward or backward; the tiles of a block follow one another on a stream.
struct PlainAttention {
  ConstTensorView q, k, v;
  Tile tile;
  double scale;
  double softcap;  // 0: none
  // Forward: the partial result that the tile is folded into.
  TensorView out, max, sum;
  // Backward. What a launch adds to: dq, or dk and dv.
  ConstTensorView d_out, lse, delta;
  TensorView dq, dk, dv;
};

constexpr std::int64_t query_rows(const PlainAttention& task) {
  return task.q.batch * task.tile.queries.count * task.q.heads;
}
constexpr std::int64_t key_rows(const PlainAttention& task) {
  return task.k.batch * task.tile.keys.count * task.k.heads;
}

/// One token of one head, `index` of the tile's rows.
struct PlainRow {
  std::int64_t index, b, t, h;
};

constexpr PlainRow plain_row(const Rows& rows, std::int64_t heads, std::int64_t index) {
  const std::int64_t token = index / heads, row = token % rows.count;
  return {row, token / rows.count, rows.first + row * rows.step, index % heads};
}

template <typename Element, typename Void>
constexpr auto* row_data(const BasicTensorView<Void>& view, std::int64_t b, std::int64_t t,
                         std::int64_t h) {
  using Data = std::conditional_t<std::is_const_v<Void>, const Element, Element>;
  return static_cast<Data*>(view.data) + view.offset(b, t, h);
}

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES Sum dot(const Element* a, const Element* b, std::int64_t dim) {
  Sum sum = 0;
  for (std::int64_t d = 0; d < dim; ++d) sum += widen(a[d]) * widen(b[d]);
  return sum;
}

/// A logit from q.k: its value, and its derivative by scale * q.k.
template <typename Sum>
struct PlainLogit {
  Sum value, slope;
};

template <typename Sum>
RINGSPAN_BOTH_SIDES PlainLogit<Sum> plain_logit(const PlainAttention& task, Sum dot) {
  const Sum s = static_cast<Sum>(task.scale) * dot, cap = static_cast<Sum>(task.softcap);
  if (cap == 0) return {s, 1};
  const Sum t = std::tanh(s / cap);
  return {cap * t, 1 - t * t};
}

/// The weight of a pair, and the derivative of its scaled logit.
template <typename Sum>
struct PlainWeight {
  Sum p, ds;
};

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES PlainWeight<Sum> plain_weight(const PlainAttention& task, std::int64_t b,
                                                  std::int64_t query, std::int64_t h,
                                                  std::int64_t key, std::int64_t kv_head) {
  const Sum lse = *row_data<Sum>(task.lse, b, query, h);
  if (lse < std::numeric_limits<Sum>::lowest()) return {0, 0};  // the row saw nothing
  const auto logit =
      plain_logit(task, dot<Sum>(row_data<Element>(task.q, b, query, h),
                                 row_data<Element>(task.k, b, key, kv_head), task.q.head_dim));
  const Sum x = logit.value - lse, p = std::exp(x > 0 ? 0 : x);  // lse is rounded; NaN stays
  const Sum dp = dot<Sum>(row_data<Element>(task.d_out, b, query, h),
                          row_data<Element>(task.v, b, key, kv_head), task.v.head_dim);
  return {p, p * (dp - *row_data<Sum>(task.delta, b, query, h)) * logit.slope};
}

/// to = keep * to + sum over n < count of weights[n] * row(n).
template <typename Sum, typename Row>
RINGSPAN_BOTH_SIDES void fold_rows(Sum* to, std::int64_t dim, Sum keep, const Sum* weights,
                                   int count, const Row& row) {
  for (std::int64_t d = 0; d < dim; ++d) {
    Sum sum = 0;
    for (int n = 0; n < count; ++n) sum += weights[n] * widen(row(n)[d]);
    to[d] = keep * to[d] + sum;
  }
}

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES void forward_row(const PlainAttention& task, std::int64_t index) {
  const auto [i, b, t, h] = plain_row(task.tile.queries, task.q.heads, index);
  const Rows& keys = task.tile.keys;
  const std::int64_t kv_head = h / (task.q.heads / task.k.heads);
  Sum& max = *row_data<Sum>(task.max, b, t, h);
  Sum& sum = *row_data<Sum>(task.sum, b, t, h);
  const std::int64_t end = keys.count < i + task.tile.hi + 1 ? keys.count : i + task.tile.hi + 1;
  for (std::int64_t j = i + task.tile.lo < 0 ? 0 : i + task.tile.lo; j < end; j += kPanel) {
    const int count = static_cast<int>(end - j < kPanel ? end - j : kPanel);
    const auto key = [&](int n) { return keys.first + (j + n) * keys.step; };
    Sum weights[kPanel], raised = max, seen = 0;
    for (int n = 0; n < count; ++n) {
      weights[n] = plain_logit(task, dot<Sum>(row_data<Element>(task.q, b, t, h),
                                              row_data<Element>(task.k, b, key(n), kv_head),
                                              task.q.head_dim))
                       .value *
                   std::numbers::log2e_v<Sum>;
      if (raised < weights[n]) raised = weights[n];
    }
    const Sum base = raised < std::numeric_limits<Sum>::lowest() ? 0 : raised;
    for (int n = 0; n < count; ++n) {
      weights[n] = std::exp2(weights[n] - base);
      seen += weights[n];
    }
    const Sum keep = std::exp2(max - base);
    fold_rows(row_data<Sum>(task.out, b, t, h), task.v.head_dim, keep, weights, count,
              [&](int n) { return row_data<Element>(task.v, b, key(n), kv_head); });
    max = raised;
    sum = keep * sum + seen;
  }
}

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES void backward_query_row(const PlainAttention& task, std::int64_t index) {
  const auto [i, b, t, h] = plain_row(task.tile.queries, task.q.heads, index);
  const Rows& keys = task.tile.keys;
  const std::int64_t kv_head = h / (task.q.heads / task.k.heads);
  const std::int64_t end = keys.count < i + task.tile.hi + 1 ? keys.count : i + task.tile.hi + 1;
  for (std::int64_t j = i + task.tile.lo < 0 ? 0 : i + task.tile.lo; j < end; j += kPanel) {
    const int count = static_cast<int>(end - j < kPanel ? end - j : kPanel);
    const auto key = [&](int n) { return keys.first + (j + n) * keys.step; };
    Sum weights[kPanel];
    for (int n = 0; n < count; ++n) {
      weights[n] = static_cast<Sum>(task.scale) *
                   plain_weight<Sum, Element>(task, b, t, h, key(n), kv_head).ds;
    }
    fold_rows(row_data<Sum>(task.dq, b, t, h), task.q.head_dim, Sum{1}, weights, count,
              [&](int n) { return row_data<Element>(task.k, b, key(n), kv_head); });
  }
}

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES void backward_key_row(const PlainAttention& task, std::int64_t index) {
  const auto [j, b, t, kv_head] = plain_row(task.tile.keys, task.k.heads, index);
  const Rows& queries = task.tile.queries;
  const std::int64_t group = task.q.heads / task.k.heads;
  const std::int64_t first = j - task.tile.hi < 0 ? 0 : j - task.tile.hi;
  const std::int64_t end =
      queries.count < j - task.tile.lo + 1 ? queries.count : j - task.tile.lo + 1;
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (std::int64_t i = first; i < end; i += kPanel) {
      const int count = static_cast<int>(end - i < kPanel ? end - i : kPanel);
      const auto query = [&](int n) { return queries.first + (i + n) * queries.step; };
      Sum p[kPanel], ds[kPanel];
      for (int n = 0; n < count; ++n) {
        const auto weight = plain_weight<Sum, Element>(task, b, query(n), h, t, kv_head);
        p[n] = weight.p;
        ds[n] = static_cast<Sum>(task.scale) * weight.ds;
      }
      fold_rows(row_data<Sum>(task.dk, b, t, kv_head), task.q.head_dim, Sum{1}, ds, count,
                [&](int n) { return row_data<Element>(task.q, b, query(n), h); });
      fold_rows(row_data<Sum>(task.dv, b, t, kv_head), task.v.head_dim, Sum{1}, p, count,
                [&](int n) { return row_data<Element>(task.d_out, b, query(n), h); });
    }
  }
}

/// Calls visitor with the types of the task's elements and sums.
template <typename Visitor>
RINGSPAN_BOTH_SIDES void with_types(const PlainAttention& task, const Visitor& visitor) {
  with_element(task.q.dtype, [&]<typename Element>(std::type_identity<Element> element) {
    visitor(
        std::type_identity<std::conditional_t<std::is_same_v<Element, double>, double, float>>{},
        element);
  });
}

// What thread `index` of each kernel does.

RINGSPAN_BOTH_SIDES inline void plain_forward(const PlainAttention& task, std::int64_t index) {
  with_types(task, [&]<typename Sum, typename Element>(std::type_identity<Sum>,
                                                       std::type_identity<Element>) {
    forward_row<Sum, Element>(task, index);
  });
}

RINGSPAN_BOTH_SIDES inline void plain_backward_queries(const PlainAttention& task,
                                                       std::int64_t index) {
  with_types(task, [&]<typename Sum, typename Element>(std::type_identity<Sum>,
                                                       std::type_identity<Element>) {
    backward_query_row<Sum, Element>(task, index);
  });
}

RINGSPAN_BOTH_SIDES inline void plain_backward_keys(const PlainAttention& task,
                                                    std::int64_t index) {
  with_types(task, [&]<typename Sum, typename Element>(std::type_identity<Sum>,
                                                       std::type_identity<Element>) {
    backward_key_row<Sum, Element>(task, index);
  });
}

}  // namespace ringspan::attention::cuda
