// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/communicator.hpp"

namespace ringspan::model {

/// The label of a token whose prediction counts nowhere: neither in the loss nor in its count.
constexpr std::int64_t kIgnoredLabel = -100;

/// All that crosses ranks of a loss. Whoever has the totals divides, once: the loss and gradient of
/// a batch without any label are then 0 on every rank, and a rank without labels adds nothing.
struct LossSum {
  double sum = 0;          // over tokens with a label: weight x loss
  std::int64_t count = 0;  // of tokens with a label

  double mean() const { return sum * per_token(); }
  /// What a token's loss, and the gradient of it, counts in the mean: 1 / count.
  double per_token() const { return 1.0 / static_cast<double>(std::max<std::int64_t>(count, 1)); }

  LossSum& operator+=(const LossSum& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
  friend bool operator==(const LossSum&, const LossSum&) = default;
};

/// Collective: the sum over the group, added up in fp64 in rank order, so that all ranks have the
/// same bits and the same call gives them again.
LossSum all_reduce(const comm::Communicator& comm, const LossSum& own);

}  // namespace ringspan::model
