// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::gpu {

/// What one launch of ringspan_matrix_peak does: each warp so many steps.
struct MatrixPeak {
  static constexpr int kChains = 8;  // products of a step, none of which needs another
  static constexpr double kFlopsPerStep = kChains * 2.0 * 16 * 8 * 16;

  std::int64_t steps;
  float* sums;  // [thread], so that nothing is left out
};

/// The kernel, to be loaded by the driver; an empty text where no CUDA toolkit was found.
const void* matrix_peak_image();

}  // namespace ringspan::gpu
