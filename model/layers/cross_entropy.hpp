// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "model/loss.hpp"
#include "model/matrix.hpp"

namespace ringspan::model {

/// loss = ln sum exp(logits) - logits[label] per row, max-shifted, in fp64; rows whose label is
/// kIgnoredLabel count nowhere. Replaces `logits`, [rows][vocabulary], by the gradient of the sum:
/// weight (softmax - one-hot(label)), and 0 for ignored rows. `weights` may be empty: all 1.
LossSum cross_entropy(const Matrix& logits, std::span<const std::int64_t> labels,
                      std::span<const float> weights);

}  // namespace ringspan::model
