// SPDX-License-Identifier: Apache-2.0
// One group of heads after the other goes to the heads and comes back to the tokens. Where several
// groups of a rank read the same KV head, K and V go with the first of them and their gradients
// with the last, so the groups change the number of messages and not what they carry (but for rows
// whose q does not fill whole elements of k and v, which is only possible with an odd head_dim).
#include "attention/closed_forms/ulysses_traffic.hpp"

#include "attention/schedules/ulysses_cut.hpp"

namespace ringspan::attention {

std::vector<std::vector<HeadShare>> grouped_heads(const Shape& shape, int ranks, int head_groups) {
  const std::vector<HeadShare> shares = split_heads(shape, ranks);
  const int groups = possible_groups(shares, head_groups);
  std::vector<std::vector<HeadShare>> grouped;
  for (const HeadShare& share : shares) {
    Shape own = shape;
    own.heads = share.heads.count;
    own.kv_heads = share.kv_heads.count;
    grouped.push_back(split_heads(own, groups));
  }
  return grouped;
}

Traffic ulysses_traffic(const UlyssesExchanges& exchanges, const Shape& shape, std::int64_t tokens,
                        const Group& group) {
  const int ranks = group.size();
  const auto heads = grouped_heads(shape, ranks, exchanges.head_groups);
  const std::int64_t e = element_bytes(shape.dtype), a = element_bytes(accumulator(shape));
  const int groups = static_cast<int>(heads.front().size());
  const auto moves_kv = [&](bool gradients, int r, int g) {
    const int neighbour = gradients ? g + 1 : g - 1;
    return neighbour < 0 || neighbour == groups ||
           heads[r][neighbour].kv_heads.first != heads[r][g].kv_heads.first;
  };
  const auto qkv_row = [&](bool gradients, int r, int g) {  // whole elements of k and v
    const auto& [q, kv] = heads[r][g];
    const std::int64_t kv_e = gradients && replicates_kv(shape, ranks) ? a : e;
    const std::int64_t of_kv =
        moves_kv(gradients, r, g) ? kv.count * (shape.head_dim + shape.value_dim) * kv_e : 0;
    return (of_kv + q.count * shape.head_dim * e + kv_e - 1) / kv_e * kv_e;
  };
  const auto rows = [&](int r) { return shape.batch * split_evenly(tokens, ranks, r).count; };

  Traffic traffic;
  const auto to_heads = [&](const auto& row) {  // the sender's tokens, the receiver's heads
    traffic += exchange_traffic(group, exchanges.algorithm,
                                [&](int from, int to) { return rows(from) * row(to); });
  };
  const auto to_tokens = [&](const auto& row) {  // the reverse
    traffic += exchange_traffic(group, exchanges.algorithm,
                                [&](int from, int to) { return rows(to) * row(from); });
  };
  for (int g = 0; g < groups; ++g) {
    const auto qkv = [&](int r) { return qkv_row(false, r, g); };
    const auto out = [&](int r) { return heads[r][g].heads.count * shape.value_dim * e; };
    if (exchanges.forward || exchanges.resends) to_heads(qkv);
    if (exchanges.forward) {
      to_tokens(out);
      continue;
    }
    if (exchanges.resends) to_heads(out);
    to_heads(out);  // d_out
    to_tokens([&](int r) { return qkv_row(true, r, g); });
  }
  if (!exchanges.with_lse) return traffic;
  to_tokens([&](int r) {
    std::int64_t of_rank = 0;
    for (const HeadShare& share : heads[r]) of_rank += share.heads.count;
    return of_rank * element_bytes(DType::f32);
  });
  return traffic;
}

}  // namespace ringspan::attention
