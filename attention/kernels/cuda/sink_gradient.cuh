// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "attention/kernels/cuda/warp.cuh"
#include "attention/tensor.hpp"

namespace ringspan::attention::cuda {

/// d_sinks[h] -= sum over the rows of head h of exp(sinks[h] - lse) * delta. lse and delta are both
/// fp64 or both fp32, as is d_sinks by itself; sinks are fp32.
struct SinkGradient {
  ConstTensorView sinks, lse, delta;
  TensorView to;
};

constexpr unsigned kSinkThreads = 128;  // a power of two
constexpr unsigned kSinkSharedBytes = kSinkThreads * sizeof(double);

RINGSPAN_DEVICE double accumulator_value(const ConstTensorView& view, std::int64_t offset) {
  return view.dtype == DType::f64 ? static_cast<const double*>(view.data)[offset]
                                  : static_cast<const float*>(view.data)[offset];
}

/// Grid: heads. Shares of the rows are summed up by threads, then in pairs, always the same.
RINGSPAN_DEVICE void sink_gradient(const SinkGradient& task) {
  auto* shares = reinterpret_cast<double*>(shared_memory());
  const std::int64_t h = block_index().x, rows = task.lse.batch * task.lse.tokens;
  const double sink = static_cast<const float*>(task.sinks.data)[task.sinks.offset(0, 0, h)];
  double sum = 0;
  for (std::int64_t row = thread_index(); row < rows; row += kSinkThreads) {
    const std::int64_t b = row / task.lse.tokens, t = row % task.lse.tokens;
    const double lse = accumulator_value(task.lse, task.lse.offset(b, t, h));
    if (lse == -INFINITY) continue;
    const double x = sink - lse, weight = exp(x > 0 ? 0 : x);  // lse is rounded; NaN stays
    sum += weight * accumulator_value(task.delta, task.delta.offset(b, t, h));
  }
  shares[thread_index()] = sum;
  for (unsigned half = kSinkThreads / 2; half > 0; half /= 2) {
    sync_threads();
    if (thread_index() < half) shares[thread_index()] += shares[thread_index() + half];
  }
  if (thread_index() != 0) return;
  const std::int64_t offset = task.to.offset(0, 0, h);
  if (task.to.dtype == DType::f64) {
    static_cast<double*>(task.to.data)[offset] -= shares[0];
  } else {
    static_cast<float*>(task.to.data)[offset] -= static_cast<float>(shares[0]);
  }
}

}  // namespace ringspan::attention::cuda
