// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/image.hpp"

namespace ringspan::attention::cuda {
namespace {

#ifdef RINGSPAN_CUDA_IMAGE
#include RINGSPAN_CUDA_IMAGE  // unsigned long long image[], by bin2c
constexpr bool kBuilt = true;
#else
constexpr char image[] = "";
constexpr bool kBuilt = false;
#endif

}  // namespace

bool has_kernels() { return kBuilt; }

const void* kernel_image() { return image; }

}  // namespace ringspan::attention::cuda
