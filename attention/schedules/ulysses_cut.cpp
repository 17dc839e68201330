// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ulysses_cut.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringspan::attention {

int possible_groups(const std::vector<HeadShare>& shares, int asked) {
  std::int64_t groups = asked;
  for (const HeadShare& share : shares) groups = std::min(groups, share.heads.count);
  return static_cast<int>(groups);
}

UlyssesCut::UlyssesCut(const Shape& shape, std::vector<std::int64_t> tokens, int groups)
    : shape_(shape),
      tokens_(std::move(tokens)),
      shares_(split_heads(shape, static_cast<int>(tokens_.size()))) {
  const int possible = possible_groups(shares_, groups);
  for (const HeadShare& share : shares_) {
    groups_.push_back(split_into_groups(shape, share, possible));
  }
}

std::int64_t UlyssesCut::all_tokens() const {
  return std::accumulate(tokens_.begin(), tokens_.end(), std::int64_t{0});
}

QkvRow UlyssesCut::qkv_row(int rank, int group) const {
  HeadGroup moved = groups_[rank][group];
  if (moved.first_reader != group) moved.share.kv_heads.count = 0;
  return {shape_, moved.share, shape_.dtype};
}

// Gradients of copied KV heads are yet to be summed, so they travel as accumulators.
QkvRow UlyssesCut::gradient_row(int rank, int group) const {
  HeadGroup moved = groups_[rank][group];
  if (moved.last_reader != group) moved.share.kv_heads.count = 0;
  const bool summed = replicates_kv(shape_, ranks());
  return {shape_, moved.share, summed ? accumulator(shape_) : shape_.dtype};
}

template <typename RowBytes>
RowExchange::Sizes UlyssesCut::sizes(const RowBytes& row_bytes) const {
  RowExchange::Sizes result{shape_.batch, tokens_, {}};
  for (int rank = 0; rank < ranks(); ++rank) result.row_bytes.push_back(row_bytes(rank));
  return result;
}

RowExchange::Sizes UlyssesCut::qkv(int group) const {
  return sizes([&](int rank) { return qkv_row(rank, group).bytes(); });
}

RowExchange::Sizes UlyssesCut::gradients(int group) const {
  return sizes([&](int rank) { return gradient_row(rank, group).bytes(); });
}

RowExchange::Sizes UlyssesCut::out(int group) const {
  const std::int64_t head = shape_.value_dim * element_bytes(shape_.dtype);
  return sizes([&](int rank) { return groups_[rank][group].share.heads.count * head; });
}

RowExchange::Sizes UlyssesCut::lse() const {
  return sizes([&](int rank) { return shares_[rank].heads.count * element_bytes(DType::f32); });
}

}  // namespace ringspan::attention
