// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/image.hpp"

namespace ringspan::attention::cuda {
namespace {

#ifdef RINGSPAN_CUDA_TARGETS
#include RINGSPAN_CUDA_ATTENTION  // unsigned long long attention[], by bin2c
#include RINGSPAN_CUDA_MOVEMENT
constexpr std::string_view kTargets = RINGSPAN_CUDA_TARGETS;
constexpr int kToolkit = RINGSPAN_CUDA_TOOLKIT;
#else
constexpr char attention[] = "", movement[] = "";
constexpr std::string_view kTargets;
constexpr int kToolkit = 0;
#endif

}  // namespace

std::string_view kernel_targets() { return kTargets; }
int kernel_toolkit() { return kToolkit; }

const void* movement_image() { return movement; }
const void* attention_image() { return attention; }

}  // namespace ringspan::attention::cuda
