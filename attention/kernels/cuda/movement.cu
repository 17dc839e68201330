// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/movement.hpp"

namespace {

__device__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace

namespace ringspan::attention::cuda {

extern "C" __global__ void ringspan_copy(const Move move) {
  if (thread_index() < threads(move)) copy(move, thread_index());
}

extern "C" __global__ void ringspan_fill(const Fill task) {
  if (thread_index() < threads(task)) fill(task, thread_index());
}

extern "C" __global__ void ringspan_accumulate(const Move move) {
  if (thread_index() < threads(move)) accumulate(move, thread_index());
}

extern "C" __global__ void ringspan_merge_out(const Merge merge) {
  if (thread_index() < threads(merge)) merge_out(merge, thread_index());
}

extern "C" __global__ void ringspan_merge_rows(const Merge merge) {
  if (thread_index() < rows(merge)) merge_rows(merge, thread_index());
}

extern "C" __global__ void ringspan_project(const Projection task) {
  if (thread_index() < threads(task)) project(task, thread_index());
}

}  // namespace ringspan::attention::cuda
