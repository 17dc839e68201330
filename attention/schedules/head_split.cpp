// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/head_split.hpp"

#include "comm/error.hpp"

namespace ringspan::attention {

std::vector<HeadShare> split_heads(const Shape& shape, int ranks) {
  RINGSPAN_REQUIRE(ranks <= shape.heads, "ulysses: ", shape.heads, " heads on ", ranks,
                   " ranks; every rank needs a head, so at most ", shape.heads,
                   " ranks can share them");
  const std::int64_t group = shape.heads / shape.kv_heads;
  std::vector<HeadShare> shares;
  if (!replicates_kv(shape, ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Part kv = split_evenly(shape.kv_heads, ranks, rank);
      shares.push_back({{kv.first * group, kv.count * group}, kv});
    }
    return shares;
  }
  for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
    const std::int64_t copies = split_evenly(ranks, shape.kv_heads, kv_head).count;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      const Part heads = split_evenly(group, copies, copy);
      shares.push_back({{kv_head * group + heads.first, heads.count}, {kv_head, 1}});
    }
  }
  return shares;
}

std::vector<HeadGroup> split_into_groups(const Shape& shape, const HeadShare& share, int groups) {
  Shape own = shape;
  own.heads = share.heads.count;
  own.kv_heads = share.kv_heads.count;
  std::vector<HeadGroup> result;
  for (const HeadShare& part : split_heads(own, groups)) {
    const int number = static_cast<int>(result.size());
    HeadGroup group{part, number, number};
    group.share.heads.first += share.heads.first;
    group.share.kv_heads.first += share.kv_heads.first;
    const std::int64_t kv_head = group.share.kv_heads.first;
    for (HeadGroup& earlier : result) {
      if (earlier.share.kv_heads.first != kv_head) continue;
      earlier.last_reader = number;
      group.first_reader = earlier.first_reader;
    }
    result.push_back(group);
  }
  return result;
}

Problem with_heads(Problem problem, const HeadShare& share) {
  problem.shape.heads = share.heads.count;
  problem.shape.kv_heads = share.kv_heads.count;
  return problem;
}

}  // namespace ringspan::attention
