// SPDX-License-Identifier: Apache-2.0
// The kernels under the names by which a module is asked for them: for tensor cores
// attention_{forward,backward_queries,backward_keys}_{bf16,f16}_{64,128,256}.
#include "attention/kernels/cuda/attention_backward.cuh"
#include "attention/kernels/cuda/plain_attention.hpp"
#include "attention/kernels/cuda/sink_gradient.cuh"

namespace {

__device__ std::int64_t grid_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace

namespace ringspan::attention::cuda {

#define RINGSPAN_KERNELS(type, dim)                                                              \
  extern "C" __global__ void __launch_bounds__(kThreads)                                         \
      attention_forward_##type##_##dim(const __grid_constant__ AttentionArguments arguments) {   \
    attention_forward<Half::type, dim>(arguments);                                               \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(kThreads)                                         \
      attention_backward_queries_##type##_##dim(                                                 \
          const __grid_constant__ AttentionArguments arguments) {                                \
    attention_backward_queries<Half::type, dim>(arguments);                                      \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(kThreads) attention_backward_keys_##type##_##dim( \
      const __grid_constant__ AttentionArguments arguments) {                                    \
    attention_backward_keys<Half::type, dim>(arguments);                                         \
  }

RINGSPAN_KERNELS(bf16, 64)
RINGSPAN_KERNELS(bf16, 128)
RINGSPAN_KERNELS(bf16, 256)
RINGSPAN_KERNELS(f16, 64)
RINGSPAN_KERNELS(f16, 128)
RINGSPAN_KERNELS(f16, 256)

extern "C" __global__ void ringspan_plain_forward(const __grid_constant__ PlainAttention task) {
  if (grid_thread() < query_rows(task)) plain_forward(task, grid_thread());
}

extern "C" __global__ void ringspan_plain_backward_queries(
    const __grid_constant__ PlainAttention task) {
  if (grid_thread() < query_rows(task)) plain_backward_queries(task, grid_thread());
}

extern "C" __global__ void ringspan_plain_backward_keys(
    const __grid_constant__ PlainAttention task) {
  if (grid_thread() < key_rows(task)) plain_backward_keys(task, grid_thread());
}

extern "C" __global__ void ringspan_finalize(const __grid_constant__ Finalize task) {
  if (grid_thread() < threads(task)) finalize(task, grid_thread());
}

extern "C" __global__ void ringspan_delta(const __grid_constant__ Delta task) {
  if (grid_thread() < threads(task)) delta(task, grid_thread());
}

extern "C" __global__ void __launch_bounds__(kSinkThreads)
    ringspan_sink_gradient(const __grid_constant__ SinkGradient task) {
  sink_gradient(task);
}

}  // namespace ringspan::attention::cuda
