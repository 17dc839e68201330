// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

/// GFLOP/s of fp32 fused multiply-adds that the calling thread's core reaches right now with its
/// widest vectors and nothing else to do: the best of many short loops within `seconds`. What the
/// CPU kernels are measured against.
double fma_peak_gflops(double seconds);

/// Seconds that the calling thread takes for `gflop` such operations now, other threads and all.
/// What the scaling of a schedule over cores is measured against.
double multiply_add_seconds(double gflop);

}  // namespace ringspan::bench
