// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/matrix.hpp"
#include "model/tokens.hpp"

namespace ringspan::model {

/// Which of a model's dropouts this is, in which step.
struct DropoutKey {
  double rate = 0;  // in [0, 1)
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t site = 0;  // counts through the model
};

/// In place: x becomes 0 with probability `rate`, else x / (1 - rate). Which ones, follows from the
/// key, the sample, the token's place in the sequence and the feature alone: from no sharding, and
/// so also when it is computed again. Row r of x is row
/// first_row + r of `tokens`.
void drop(const Matrix& x, const Tokens& tokens, std::int64_t first_row, const DropoutKey& key);

/// d_y dropped alike, in memory of its own; d_y itself where nothing is dropped.
Matrix drop_gradient(comm::Device& device, const Matrix& d_y, const Tokens& tokens,
                     std::int64_t first_row, const DropoutKey& key);

}  // namespace ringspan::model
