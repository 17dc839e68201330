// SPDX-License-Identifier: Apache-2.0
// Work in closed form. It counts keys per query instead of tiles, so that each can check the other.
#include <algorithm>
#include <limits>

#include "attention/closed_forms.hpp"
#include "attention/segments.hpp"

namespace ringspan::attention {
namespace {

__extension__ using Wide = __int128;  // 2^32 tokens see more pairs than 64 bits hold

/// sum of clamp(first + stride * i, 0, top) for i in [0, count): the terms between the bounds are
/// an arithmetic series.
Wide clamped_sum(Wide first, Wide stride, Wide count, Wide top) {
  const auto terms_below = [&](Wide bound) {  // how many terms are < bound
    return bound > first ? std::min((bound - first - 1) / stride + 1, count) : Wide{0};
  };
  const Wide begin = terms_below(0), end = terms_below(top), between = end - begin;
  return between * first + stride * ((begin + end - 1) * between / 2) + (count - end) * top;
}

/// Keys of the segment's document that its queries see, one after the other.
Wide visible_pairs(const Segment& queries, const Mask& mask) {
  const std::int64_t keys = queries.document_length;
  const auto [first, stride, count] = queries.tokens;
  const Wide position = first - queries.document_first;  // in the document
  // Bounds beyond the document see all of it; cutting them there keeps sums small.
  const std::int64_t right = std::min(mask.right.value_or(keys), keys);
  const std::int64_t left = std::min(mask.left.value_or(keys), keys);
  return clamped_sum(position + right + 1, stride, count, keys) -
         clamped_sum(position - left, stride, count, keys);
}

Wide pairs_of(const Shard& queries, const Problem& problem) {
  const Sequence seen =
      problem.mask.documents ? problem.sequence : without_boundaries(problem.sequence);
  Wide pairs = 0;
  for (const Segment& segment : segments(queries, seen)) {
    if (segment.document >= 0) pairs += visible_pairs(segment, problem.mask);
  }
  return pairs;
}

/// Multiplying and adding one element of each visible pair of all heads.
double flops_per_dim(const Problem& problem) {
  const Shard whole = {{0, 1, problem.sequence.length}};
  return 2.0 * static_cast<double>(pairs_of(whole, problem)) * problem.shape.batch *
         problem.shape.heads;
}

}  // namespace

std::int64_t visible_pairs(const Shard& queries, const Problem& problem) {
  return static_cast<std::int64_t>(
      std::min<Wide>(pairs_of(queries, problem), std::numeric_limits<std::int64_t>::max()));
}

double forward_flops(const Problem& problem) {
  return flops_per_dim(problem) * (problem.shape.head_dim + problem.shape.value_dim);
}

double backward_flops(const Problem& problem) {
  return flops_per_dim(problem) * (3 * problem.shape.head_dim + 2 * problem.shape.value_dim);
}

}  // namespace ringspan::attention
