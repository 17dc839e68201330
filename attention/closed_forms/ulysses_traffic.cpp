// SPDX-License-Identifier: Apache-2.0
// One group of heads after the other goes to the heads and comes back to the tokens. Where several
// groups of a rank read the same KV head, K and V go with the first of them and their gradients
// with the last, so the groups change the number of messages and not what they carry (but for rows
// whose q does not fill whole elements of k and v, which is only possible with an odd head_dim).
#include "attention/closed_forms/ulysses_traffic.hpp"

#include <algorithm>

namespace ringspan::attention {

std::vector<std::vector<HeadShare>> grouped_heads(const Shape& shape, int ranks, int head_groups) {
  const std::vector<HeadShare> shares = split_heads(shape, ranks);
  std::int64_t groups = head_groups;
  for (const HeadShare& share : shares) groups = std::min(groups, share.heads.count);
  std::vector<std::vector<HeadShare>> grouped;
  for (const HeadShare& share : shares) {
    Shape own = shape;
    own.heads = share.heads.count;
    own.kv_heads = share.kv_heads.count;
    grouped.push_back(split_heads(own, static_cast<int>(groups)));
  }
  return grouped;
}

Traffic ulysses_traffic(const UlyssesExchanges& exchanges, const Shape& shape, std::int64_t tokens,
                        const Group& group) {
  const auto& [forward, algorithm, head_groups, with_lse] = exchanges;
  const int ranks = group.size();
  const auto heads = grouped_heads(shape, ranks, head_groups);
  const std::int64_t e = element_bytes(shape.dtype), a = element_bytes(accumulator(shape));
  const std::int64_t kv_e = !forward && replicates_kv(shape, ranks) ? a : e;
  const int groups = static_cast<int>(heads.front().size());
  const auto moves_kv = [&, to_heads = forward](int r, int g) {
    const int neighbour = to_heads ? g - 1 : g + 1;
    return neighbour < 0 || neighbour == groups ||
           heads[r][neighbour].kv_heads.first != heads[r][g].kv_heads.first;
  };
  const auto qkv_row = [&](int r, int g) {  // whole elements of k and v
    const auto& [q, kv] = heads[r][g];
    const std::int64_t of_kv =
        moves_kv(r, g) ? kv.count * (shape.head_dim + shape.value_dim) * kv_e : 0;
    return (of_kv + q.count * shape.head_dim * e + kv_e - 1) / kv_e * kv_e;
  };
  const auto rows = [&](int r) { return shape.batch * split_evenly(tokens, ranks, r).count; };

  Traffic traffic;
  std::vector<std::int64_t> lse_row(ranks);
  for (int g = 0; g < groups; ++g) {
    std::vector<std::int64_t> qkv, out;
    for (int r = 0; r < ranks; ++r) {
      qkv.push_back(qkv_row(r, g));
      out.push_back(heads[r][g].heads.count * shape.value_dim * e);
      lse_row[r] += heads[r][g].heads.count * element_bytes(DType::f32);
    }
    const auto& in = forward ? qkv : out;
    const auto& back = forward ? out : qkv;
    // To the heads: the sender's tokens, the receiver's heads. Back to the tokens: the reverse.
    traffic +=
        exchange_traffic(group, algorithm, [&](int from, int to) { return rows(from) * in[to]; });
    traffic +=
        exchange_traffic(group, algorithm, [&](int from, int to) { return rows(to) * back[from]; });
  }
  if (!with_lse) return traffic;
  return traffic += exchange_traffic(group, algorithm,
                                     [&](int from, int to) { return rows(to) * lse_row[from]; });
}

}  // namespace ringspan::attention
