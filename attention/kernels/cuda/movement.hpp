// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "attention/kernels/scalar.hpp"

// Movement as the threads of a GPU do it, one vector of elements each. nvcc compiles all of this
// for both sides (constexpr functions are device functions too), so that the host runs the same
// index arithmetic. What a kernel takes is one struct, by value.
#ifdef __CUDACC__
#define RINGSPAN_BOTH_SIDES __host__ __device__
#else
#define RINGSPAN_BOTH_SIDES
#endif

namespace ringspan::attention::cuda {

/// Elements that a thread moves at once where addresses and strides allow it: 16 bytes of 16-bit
/// elements. Else one.
inline constexpr int kVector = 8;

template <typename Element, int kCount>
struct alignas(sizeof(Element) * kCount < 16 ? sizeof(Element) * kCount : 16) Vector {
  Element at[kCount];
};

struct Place {
  std::int64_t b, t, h, d;
};

/// Where vector `index` of `view` begins, in the order of the axes.
template <typename Void>
constexpr Place place(const BasicTensorView<Void>& view, int vector, std::int64_t index) {
  const std::int64_t per_run = view.head_dim / vector;
  const std::int64_t run = index / per_run, token = run / view.heads;
  return {token / view.tokens, token % view.tokens, run % view.heads, index % per_run * vector};
}

template <typename Void>
constexpr std::int64_t offset(const BasicTensorView<Void>& view, const Place& at) {
  return view.offset(at.b, at.t, at.h, at.d);
}

template <int kCount, typename Element>
constexpr Vector<Element, kCount>& vector_at(Element* data) {
  return *static_cast<Vector<Element, kCount>*>(static_cast<void*>(data));
}

/// Of two tensors with equal axes; `vector` is kVector or 1. Also accumulation.
struct Move {
  ConstTensorView from;
  TensorView to;
  int vector;
};

struct Fill {
  TensorView to;
  double value;
  int vector;
};

/// Partial, apart: kernels take no references.
struct Merge {
  TensorView into_out, into_max, into_sum;
  ConstTensorView from_out, from_max, from_sum;
  int vector;
};

/// A thread per row: `to` = the part of out that lies along d_out, and `statistics` = lse, both 0
/// for rows that saw nothing, padding among them.
struct Projection {
  ConstTensorView d_out, delta, lse;
  TensorView to, statistics;
};

template <typename Task>
constexpr std::int64_t threads(const Task& task) {
  return task.to.elements() / task.vector;
}
constexpr std::int64_t threads(const Merge& task) { return task.into_out.elements() / task.vector; }
constexpr std::int64_t threads(const Projection& task) { return task.statistics.elements(); }
constexpr std::int64_t rows(const Merge& task) { return task.into_max.elements(); }

template <typename From, typename To, int kCount>
RINGSPAN_BOTH_SIDES void copy_vector(const Move& move, std::int64_t index) {
  const Place at = place(move.to, kCount, index);
  const auto from = vector_at<kCount>(static_cast<From*>(const_cast<void*>(move.from.data)) +
                                      offset(move.from, at));
  Vector<To, kCount> to;
  for (int i = 0; i < kCount; ++i) to.at[i] = convert<To>(from.at[i]);
  vector_at<kCount>(static_cast<To*>(move.to.data) + offset(move.to, at)) = to;
}

template <typename From, typename Sum, int kCount>
RINGSPAN_BOTH_SIDES void accumulate_vector(const Move& move, std::int64_t index) {
  const Place at = place(move.to, kCount, index);
  const auto from = vector_at<kCount>(static_cast<From*>(const_cast<void*>(move.from.data)) +
                                      offset(move.from, at));
  auto& to = vector_at<kCount>(static_cast<Sum*>(move.to.data) + offset(move.to, at));
  Vector<Sum, kCount> sum = to;
  for (int i = 0; i < kCount; ++i) sum.at[i] += convert<Sum>(from.at[i]);
  to = sum;
}

template <typename To, int kCount>
RINGSPAN_BOTH_SIDES void fill_vector(const Fill& fill, std::int64_t index) {
  Vector<To, kCount> to;
  for (int i = 0; i < kCount; ++i) to.at[i] = convert<To>(fill.value);
  vector_at<kCount>(static_cast<To*>(fill.to.data) +
                    offset(fill.to, place(fill.to, kCount, index))) = to;
}

/// What one row of each partial result counts for in their merger. Nothing of `from`: not merged.
template <typename Sum>
struct MergeWeights {
  Sum max, keep, take;
  bool merges;
};

template <typename Sum>
RINGSPAN_BOTH_SIDES Sum& row_value(const ConstTensorView& view, const Place& at) {
  return static_cast<Sum*>(const_cast<void*>(view.data))[view.offset(at.b, at.t, at.h)];
}

template <typename Sum>
RINGSPAN_BOTH_SIDES MergeWeights<Sum> merge_weights(const Merge& merge, const Place& at) {
  const Sum into = row_value<Sum>(merge.into_max, at), from = row_value<Sum>(merge.from_max, at);
  const Sum max = from < into ? into : from;  // in this order a NaN of `from` is not lost
  return {max, std::exp2(into - max), std::exp2(from - max),
          !(from < std::numeric_limits<Sum>::lowest())};
}

/// Of the results alone: other threads read max and sum of the row, which merge_row replaces later.
template <typename Sum, int kCount>
RINGSPAN_BOTH_SIDES void merge_vector(const Merge& merge, std::int64_t index) {
  const Place at = place(merge.into_out, kCount, index);
  const MergeWeights<Sum> weights = merge_weights<Sum>(merge, at);
  if (!weights.merges) return;
  const auto from = vector_at<kCount>(static_cast<Sum*>(const_cast<void*>(merge.from_out.data)) +
                                      offset(merge.from_out, at));
  auto& into =
      vector_at<kCount>(static_cast<Sum*>(merge.into_out.data) + offset(merge.into_out, at));
  Vector<Sum, kCount> out = into;
  for (int i = 0; i < kCount; ++i) out.at[i] = weights.keep * out.at[i] + weights.take * from.at[i];
  into = out;
}

template <typename Sum>
RINGSPAN_BOTH_SIDES void merge_row(const Merge& merge, std::int64_t index) {
  const Place at = place(merge.into_max, 1, index);
  const MergeWeights<Sum> weights = merge_weights<Sum>(merge, at);
  if (!weights.merges) return;
  Sum& sum = row_value<Sum>(merge.into_sum, at);
  sum = weights.keep * sum + weights.take * row_value<Sum>(merge.from_sum, at);
  row_value<Sum>(merge.into_max, at) = weights.max;
}

/// to = delta / |d_out|_1 sign(d_out), whose product with d_out is delta: by Hoelder's inequality
/// none of its elements is larger than the largest of out if delta = out.d_out. What roundings have
/// taken from that product the elements behind make up for, each by a unit of its own at most.
RINGSPAN_BOTH_SIDES inline void project(const Projection& task, std::int64_t index) {
  const Place at = place(task.statistics, 1, index);
  const float lse = row_value<float>(task.lse, at);
  const bool saw_any = !(lse < std::numeric_limits<float>::lowest());
  const auto* d_out = static_cast<const Bf16*>(task.d_out.data) + offset(task.d_out, at);
  auto* to = static_cast<Bf16*>(task.to.data) + offset(task.to, at);
  float sum = 0, owed = 0;
  for (std::int64_t d = 0; saw_any && d < task.to.head_dim; ++d) sum += std::fabs(widen(d_out[d]));
  const float size = sum == 0 ? 0 : row_value<float>(task.delta, at) / sum;
  const float unit = std::fabs(size) * 0x1p-8F;  // in the last place, at most
  for (std::int64_t d = 0; d < task.to.head_dim; ++d) {
    const float value = saw_any ? widen(d_out[d]) : 0, weight = std::fabs(value);
    const float more = weight == 0 ? 0 : std::fmax(-unit, std::fmin(unit, owed / weight));
    to[d] = convert<Bf16>(value == 0 ? 0.0F : std::copysign(1.0F, value) * (size + more));
    owed += size * weight - widen(to[d]) * value;
  }
  row_value<float>(task.statistics, at) = saw_any ? lse : 0;
}

// What thread `index` of each kernel does.

RINGSPAN_BOTH_SIDES inline void copy(const Move& move, std::int64_t index) {
  with_element(move.from.dtype, [&]<typename From>(std::type_identity<From>) {
    with_element(move.to.dtype, [&]<typename To>(std::type_identity<To>) {
      move.vector == 1 ? copy_vector<From, To, 1>(move, index)
                       : copy_vector<From, To, kVector>(move, index);
    });
  });
}

RINGSPAN_BOTH_SIDES inline void fill(const Fill& fill, std::int64_t index) {
  with_element(fill.to.dtype, [&]<typename To>(std::type_identity<To>) {
    fill.vector == 1 ? fill_vector<To, 1>(fill, index) : fill_vector<To, kVector>(fill, index);
  });
}

template <typename From, typename Sum>
RINGSPAN_BOTH_SIDES void accumulate_from(const Move& move, std::int64_t index) {
  move.vector == 1 ? accumulate_vector<From, Sum, 1>(move, index)
                   : accumulate_vector<From, Sum, kVector>(move, index);
}

RINGSPAN_BOTH_SIDES inline void accumulate(const Move& move, std::int64_t index) {
  if (move.to.dtype == DType::f64) {
    accumulate_from<double, double>(move, index);
  } else if (move.from.dtype == DType::bf16) {
    accumulate_from<Bf16, float>(move, index);
  } else {
    accumulate_from<float, float>(move, index);
  }
}

RINGSPAN_BOTH_SIDES inline void merge_out(const Merge& merge, std::int64_t index) {
  if (merge.into_out.dtype == DType::f64) {
    merge.vector == 1 ? merge_vector<double, 1>(merge, index)
                      : merge_vector<double, kVector>(merge, index);
  } else {
    merge.vector == 1 ? merge_vector<float, 1>(merge, index)
                      : merge_vector<float, kVector>(merge, index);
  }
}

RINGSPAN_BOTH_SIDES inline void merge_rows(const Merge& merge, std::int64_t index) {
  merge.into_out.dtype == DType::f64 ? merge_row<double>(merge, index)
                                     : merge_row<float>(merge, index);
}

}  // namespace ringspan::attention::cuda
