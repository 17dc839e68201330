// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/train/options.hpp"

namespace ringspan::bench {

/// Memory that all ranks of a training take together, at least: samples, parameters with their
/// gradients and AdamW's state, and what is there of activations when the backward pass begins.
/// What attention works in, and buffers of messages, are not in it. A double, because what is
/// refused may exceed 64 bits.
double bytes_needed(const TrainOptions& options);

}  // namespace ringspan::bench
