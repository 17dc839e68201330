// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/matrix_peak.hpp"

#ifdef RINGSPAN_CUDA_IMAGE
#include RINGSPAN_CUDA_IMAGE  // unsigned long long image[], by bin2c
#else
static constexpr char image[] = "";
#endif

namespace ringspan::gpu {

const void* matrix_peak_image() { return image; }

}  // namespace ringspan::gpu
