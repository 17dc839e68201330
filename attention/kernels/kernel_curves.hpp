// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ringspan::attention {

/// Attention kernels of others whose speed has been published.
enum class KernelLibrary { fa2, fa3, fa4, cudnn };
std::string_view name(KernelLibrary library);

enum class KernelPass { forward, backward };

/// rate(s) = flops_per_second * s / (s + half_keys) for s queries and s keys: the speed of long
/// sequences, and the length that runs at half of it.
struct RateFit {
  double flops_per_second = 0;
  double half_keys = 0;
};

/// How fast one kernel runs on one GPU, in 16 bits. What is fitted twice, without a mask and with a
/// causal one, is meant as one thing: a row costs as much as half_keys more keys, and a row whose
/// keys end at a mask costs cut_keys more, because blocks of keys are computed whole. Where thread
/// blocks start in order (`resident`), the fits are of a GPU that they would fill to the end.
struct KernelCurve {
  std::string_view gpu;
  KernelLibrary library;
  KernelPass pass;
  std::int64_t head_dim;
  RateFit full, causal;
  std::int64_t block_rows;  // of a thread block: queries forward, keys backward
  bool persistent;          // thread blocks take several blocks of rows, so that no wave is partial
  int resident;  // thread blocks on a multiprocessor at once, which start in order of rows,
                 // the longest of a causal mask last; 0: what that costs is in the fit
  std::string_view source;

  /// A causal row sees half of s keys, so its surcharge per key counts twice in half_keys.
  std::int64_t cut_keys() const {
    return static_cast<std::int64_t>(causal.half_keys / 2 - full.half_keys + 0.5);
  }
};

std::span<const KernelCurve> kernel_curves();

/// The curve of the nearest head_dim (by ratio). `gpu_kind` is Gpu::kind of a cluster. Throws
/// invalid_argument, listing what is known.
const KernelCurve& kernel_curve(std::string_view gpu_kind, KernelLibrary library, KernelPass pass,
                                double head_dim);

/// The one written for this GPU.
KernelLibrary usual_library(std::string_view gpu_kind);

}  // namespace ringspan::attention
