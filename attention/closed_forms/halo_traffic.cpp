// SPDX-License-Identifier: Apache-2.0
// Of a shard behind which a viewer's tokens begin at b, what is seen begins where the window of b
// does, or b's document: max(b - left, begin of the document) to the end of the shard. Of a shard
// ahead of a viewer whose last token is l, it ends at min(l + right, end of the document).
#include "attention/closed_forms/halo_traffic.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "attention/schedules/kv_block.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::attention {
namespace {

class HaloTokens {
 public:
  HaloTokens(const Problem& problem, int ranks)
      : length_(problem.sequence.length),
        ranks_(ranks),
        left_(*problem.mask.left),
        right_(*problem.mask.right) {
    for (const std::int64_t document : problem.sequence.documents) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + document);
    }
    if (ends_.empty()) ends_ = {length_};
    if (!problem.mask.documents) ends_ = {ends_.back()};
  }

  /// How many tokens of `owner` the queries of `viewer` see.
  std::int64_t seen(int viewer, int owner) const {
    const Part queries = split_evenly(length_, ranks_, viewer);
    const Part keys = split_evenly(length_, ranks_, owner);
    const std::int64_t first = queries.first;
    const std::int64_t last = std::min(first + queries.count, ends_.back()) - 1;  // no padding
    if (last < first) return 0;
    std::int64_t begin = keys.first, end = keys.first + keys.count;
    if (owner < viewer) begin = std::max({begin, first - left_, document(first).first});
    if (owner > viewer) {
      end = std::min(end, document(last).second);
      end = last + 1 + std::min(right_, end - last - 1);  // the bound may be any 64 bits
    }
    return std::max<std::int64_t>(end - begin, 0);
  }

 private:
  /// Where the document of a token begins and ends.
  std::pair<std::int64_t, std::int64_t> document(std::int64_t token) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), token);
    return {end == ends_.begin() ? 0 : *(end - 1), *end};
  }

  std::int64_t length_;
  int ranks_;
  std::int64_t left_, right_;
  std::vector<std::int64_t> ends_;  // of documents, ascending
};

}  // namespace

Traffic halo_forward_traffic(const Problem& problem, const Group& group) {
  const HaloTokens tokens(problem, group.size());
  const KvFormat kv{problem.shape, problem.shape.dtype};
  Traffic traffic;
  for (int viewer = 0; viewer < group.size(); ++viewer) {
    if (viewer == group.rank) continue;
    traffic += group.message(viewer, kv.bytes(tokens.seen(viewer, group.rank)));
  }
  return traffic;
}

Traffic halo_backward_traffic(const Problem& problem, const Group& group) {
  const HaloTokens tokens(problem, group.size());
  const KvFormat kv{problem.shape, accumulator(problem.shape)};
  Traffic traffic;
  for (int owner = 0; owner < group.size(); ++owner) {
    if (owner == group.rank) continue;
    traffic += group.message(owner, kv.bytes(tokens.seen(group.rank, owner)));
  }
  return traffic;
}

}  // namespace ringspan::attention
