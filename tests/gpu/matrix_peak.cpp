// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/matrix_peak.hpp"

namespace ringspan::gpu {
namespace {

#ifdef RINGSPAN_CUDA_MATRIX_PEAK
#include RINGSPAN_CUDA_MATRIX_PEAK  // unsigned long long matrix_peak[], by bin2c
#else
constexpr char matrix_peak[] = "";
#endif

}  // namespace

const void* matrix_peak_image() { return matrix_peak; }

}  // namespace ringspan::gpu
