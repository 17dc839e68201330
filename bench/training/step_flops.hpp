// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/training/training_config.hpp"

namespace ringspan::bench {

/// How a paper counts the floating-point operations of a step. Without recomputing, a backward pass
/// counts as two forward passes, attention included, although a flash kernel does 2.5.
struct FlopsConvention {
  std::string_view name;
  double causal_share;  // of all pairs: 0.5 what a causal mask lets through, 1 all of them
  bool vocabulary;      // logits count
  bool gpt_layers;      // 24 hidden^2 per token and layer, whatever the layer is made of
  bool recompute;       // what is computed a second time counts: "hardware FLOPs"
};

inline constexpr FlopsConvention kModelFlops = {"model, causal", 0.5, true, false, false};
inline constexpr FlopsConvention kHardwareFlops = {"hardware, causal", 0.5, true, false, true};

/// Of all GPUs together.
double step_flops(const Model& model, const TrainingConfig& config,
                  const FlopsConvention& convention);

/// Per GPU; over the peak it is MFU, or with `recompute` HFU.
double flops_per_second(const Model& model, const TrainingConfig& config,
                        const FlopsConvention& convention, double step_seconds);

}  // namespace ringspan::bench
