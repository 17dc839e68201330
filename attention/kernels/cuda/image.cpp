// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/image.hpp"

namespace ringspan::attention::cuda {
namespace {

#ifdef RINGSPAN_CUDA_IMAGE
#include RINGSPAN_CUDA_IMAGE  // unsigned long long image[], by bin2c
constexpr std::string_view kTargets = RINGSPAN_CUDA_TARGETS;
#else
constexpr char image[] = "";
constexpr std::string_view kTargets;
#endif

}  // namespace

std::string_view kernel_targets() { return kTargets; }

const void* kernel_image() { return image; }

}  // namespace ringspan::attention::cuda
