// SPDX-License-Identifier: Apache-2.0
// The kernels under the names by which a module is asked for them:
// attention_{forward,backward_queries,backward_keys}_{bf16,f16}_{64,128,256}.
#include "attention/kernels/cuda/attention_backward.cuh"

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

}  // namespace ringspan::attention::cuda
