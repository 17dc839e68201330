// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/visibility.hpp"

#include <algorithm>

namespace ringspan::attention {

Visibility::Visibility(const Problem& problem, LayoutKind layout, int ranks)
    : left_(problem.mask.left.value_or(problem.sequence.length)),
      right_(problem.mask.right.value_or(problem.sequence.length)) {
  const Sequence& sequence = problem.sequence;
  for (const std::int64_t length : sequence.documents) {
    document_ends_.push_back(length + (document_ends_.empty() ? 0 : document_ends_.back()));
  }
  if (document_ends_.empty()) document_ends_.push_back(sequence.length);
  if (!problem.mask.documents) document_ends_ = {document_ends_.back()};
  for (const Shard& shard : shards(layout, sequence, ranks)) {
    positions_.push_back(positions(shard));
    std::sort(positions_.back().begin(), positions_.back().end());
  }
}

bool Visibility::sees(int rank, int owner) const {
  const std::vector<std::int64_t>&queries = positions_[rank], &keys = positions_[owner];
  if (queries.empty() || keys.empty() || keys.front() - right_ > queries.back() ||
      keys.back() < queries.front() - left_) {
    return false;  // most pairs of long contiguous shards, at once
  }
  return std::any_of(queries.begin(), queries.end(), [&](std::int64_t query) {
    const auto end = std::upper_bound(document_ends_.begin(), document_ends_.end(), query);
    if (end == document_ends_.end()) return false;  // padding
    const std::int64_t begin = end == document_ends_.begin() ? 0 : *(end - 1);
    const auto key = std::lower_bound(keys.begin(), keys.end(), std::max(begin, query - left_));
    return key != keys.end() && *key < *end && *key - right_ <= query;
  });
}

}  // namespace ringspan::attention
