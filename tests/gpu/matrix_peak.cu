// SPDX-License-Identifier: Apache-2.0
// As many mma.sync m16n8k16 of bf16 as a GPU can do: operands stay in registers. (Hopper's wgmma
// and Blackwell's tcgen05 do more; the kernels of attention use neither.)
#include "tests/gpu/matrix_peak.hpp"

namespace ringspan::gpu {

extern "C" __global__ void __launch_bounds__(256) ringspan_matrix_peak(const MatrixPeak task) {
  float c[MatrixPeak::kChains][4] = {};
  const unsigned one = 0x3f803f80u, small = 0x3c003c00u + threadIdx.x % 2;  // two bf16 each
  for (std::int64_t step = 0; step < task.steps; ++step) {
#pragma unroll
    for (int i = 0; i < MatrixPeak::kChains; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
          : "r"(one), "r"(small), "r"(one), "r"(small), "r"(small), "r"(small));
    }
  }
  float sum = 0;
  for (int i = 0; i < MatrixPeak::kChains; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  task.sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace ringspan::gpu
