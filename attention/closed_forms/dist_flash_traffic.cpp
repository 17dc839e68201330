// SPDX-License-Identifier: Apache-2.0
// The pair (queries of i, keys of j) is computed at i, which is sent the keys, if i is at most P/2
// ranks behind j around the ring, and else at j, which is sent the queries. Per element of c tokens
// of D = head_dim + value_dim, e bytes, accumulators of a:
//   computed at i   forward  j sends c G D e                   backward  the same, and i c G D a
//   computed at j   forward  i sends c H head_dim e,           backward  c H (D e + 2 a), for lse
//                   j c H (value_dim + 2) a back                and delta, and j c H head_dim a
// The paper counts N d elements per rank forward, which this comes to within a few per cent, and
// twice as many backward, where gradients are accumulators here.
#include "attention/closed_forms/dist_flash_traffic.hpp"

namespace ringspan::attention {
namespace {

/// Bytes per token: of what goes to who computes, and of what comes back.
struct BytesPerToken {
  std::int64_t keys, key_results, queries, query_results;
};

Traffic traffic(const BytesPerToken& bytes, const Visibility& visibility, const Group& group) {
  const int ranks = group.size(), rank = group.rank;
  const auto helped = [&](int queries, int keys) {  // is this pair computed where the keys are?
    return 2 * ((queries - keys + ranks) % ranks) > ranks;
  };
  Traffic sum;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    if (visibility.sees(other, rank)) {  // its queries, the keys of this rank
      sum +=
          group.message(other, helped(other, rank) ? bytes.query_results * visibility.tokens(other)
                                                   : bytes.keys * visibility.tokens(rank));
    }
    if (visibility.sees(rank, other)) {
      sum +=
          group.message(other, helped(rank, other) ? bytes.queries * visibility.tokens(rank)
                                                   : bytes.key_results * visibility.tokens(other));
    }
  }
  return sum;
}

}  // namespace

Traffic dist_flash_forward_traffic(const Shape& shape, const Visibility& visibility,
                                   const Group& group) {
  const std::int64_t e = element_bytes(shape.dtype), sum = element_bytes(accumulator(shape));
  const std::int64_t max = element_bytes(max_dtype(shape));
  const std::int64_t kv = shape.batch * shape.kv_heads * (shape.head_dim + shape.value_dim);
  const std::int64_t rows = shape.batch * shape.heads;
  return traffic({kv * e, 0, rows * shape.head_dim * e, rows * ((shape.value_dim + 1) * sum + max)},
                 visibility, group);
}

Traffic dist_flash_backward_traffic(const Shape& shape, const Visibility& visibility,
                                    const Group& group) {
  const std::int64_t e = element_bytes(shape.dtype), a = element_bytes(accumulator(shape.dtype));
  const std::int64_t sum = element_bytes(accumulator(shape));
  const std::int64_t kv = shape.batch * shape.kv_heads * (shape.head_dim + shape.value_dim);
  const std::int64_t rows = shape.batch * shape.heads;
  const std::int64_t queries = rows * ((shape.head_dim + shape.value_dim) * e + 2 * a);
  return traffic({kv * e, kv * sum, queries, rows * shape.head_dim * sum}, visibility, group);
}

}  // namespace ringspan::attention
