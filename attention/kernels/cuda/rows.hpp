// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numbers>

#include "attention/kernels/cuda/movement.hpp"

// What is done once per row of a result, as the threads of a GPU do it; see movement.hpp.
namespace ringspan::attention::cuda {

/// Kernels::finalize. Without data: no sinks, no lse.
struct Finalize {
  ConstTensorView from_out, from_max, from_sum, sinks;
  TensorView to, lse;
  int vector;
};

/// Kernels::delta, without sinks: a thread per row.
struct Delta {
  ConstTensorView out, d_out, lse;
  TensorView to;
  int vector = 1;  // rows
};

/// What a row of a partial result is multiplied by and then divided by. Nothing seen: neither.
template <typename Sum>
struct FinalRow {
  Sum max, factor, sum;
  bool saw_any;
};

template <typename Sum>
RINGSPAN_BOTH_SIDES FinalRow<Sum> final_row(const Finalize& task, const Place& at) {
  const Sum seen = row_value<Sum>(task.from_max, at), sum = row_value<Sum>(task.from_sum, at);
  const bool saw_any = !(seen < std::numeric_limits<Sum>::lowest());  // NaN counts as seen
  if (!task.sinks.data) return {seen, 1, sum, saw_any};
  const Sum sink = static_cast<const float*>(task.sinks.data)[task.sinks.offset(0, 0, at.h)] *
                   std::numbers::log2e_v<Sum>;
  const Sum max = seen < sink ? sink : seen, factor = std::exp2(seen - max);
  return {max, factor, sum * factor + std::exp2(sink - max), saw_any};
}

/// The thread of a row's first elements also has its lse.
template <typename Sum, typename To, int kCount>
RINGSPAN_BOTH_SIDES void finalize_vector(const Finalize& task, std::int64_t index) {
  const Place at = place(task.to, kCount, index);
  const FinalRow<Sum> row = final_row<Sum>(task, at);
  const auto from = vector_at<kCount>(static_cast<Sum*>(const_cast<void*>(task.from_out.data)) +
                                      offset(task.from_out, at));
  Vector<To, kCount> to;
  for (int i = 0; i < kCount; ++i) {
    to.at[i] = convert<To>(row.saw_any ? from.at[i] * row.factor / row.sum : Sum{0});
  }
  vector_at<kCount>(static_cast<To*>(task.to.data) + offset(task.to, at)) = to;
  if (at.d != 0 || !task.lse.data) return;
  const Sum lse = row.saw_any ? (row.max + std::log2(row.sum)) * std::numbers::ln2_v<Sum>
                              : -std::numeric_limits<Sum>::infinity();
  const std::int64_t lse_offset = task.lse.offset(at.b, at.t, at.h);
  if (task.lse.dtype == DType::f64) {
    static_cast<double*>(task.lse.data)[lse_offset] = static_cast<double>(lse);
  } else {
    static_cast<float*>(task.lse.data)[lse_offset] = static_cast<float>(lse);
  }
}

template <typename Sum, typename Element>
RINGSPAN_BOTH_SIDES void delta_row(const Delta& task, std::int64_t index) {
  const Place at = place(task.to, 1, index);
  Sum sum = 0;
  // What saw nothing may be padding, in which anything lies.
  if (!(row_value<Sum>(task.lse, at) < std::numeric_limits<Sum>::lowest())) {
    const auto* out = static_cast<const Element*>(task.out.data) + offset(task.out, at);
    const auto* d_out = static_cast<const Element*>(task.d_out.data) + offset(task.d_out, at);
    for (std::int64_t d = 0; d < task.out.head_dim; ++d) sum += widen(out[d]) * widen(d_out[d]);
  }
  static_cast<Sum*>(task.to.data)[offset(task.to, at)] = sum;
}

// What thread `index` of each kernel does.

RINGSPAN_BOTH_SIDES inline void finalize(const Finalize& task, std::int64_t index) {
  with_element(task.to.dtype, [&]<typename To>(std::type_identity<To>) {
    using Sum = std::conditional_t<std::is_same_v<To, double>, double, float>;
    task.vector == 1 ? finalize_vector<Sum, To, 1>(task, index)
                     : finalize_vector<Sum, To, kVector>(task, index);
  });
}

RINGSPAN_BOTH_SIDES inline void delta(const Delta& task, std::int64_t index) {
  with_element(task.out.dtype, [&]<typename Element>(std::type_identity<Element>) {
    using Sum = std::conditional_t<std::is_same_v<Element, double>, double, float>;
    delta_row<Sum, Element>(task, index);
  });
}

}  // namespace ringspan::attention::cuda
