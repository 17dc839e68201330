// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedules/head_split.hpp"
#include "attention/schedules/qkv_row.hpp"
#include "attention/schedules/row_exchange.hpp"

namespace ringspan::attention {

/// How the ranks of ulysses cut a problem among them: tokens on one side of the all-to-alls, heads
/// on the other, and these again into groups that follow each other through the exchanges. There
/// are as many groups as asked for, but no more than the rank with the fewest heads has heads.
class UlyssesCut {
 public:
  /// `tokens`: of each rank. Throws invalid_argument if there are more ranks than heads.
  UlyssesCut(const Shape& shape, std::vector<std::int64_t> tokens, int groups);

  int ranks() const { return static_cast<int>(shares_.size()); }
  int groups() const { return static_cast<int>(groups_.front().size()); }
  const HeadShare& share(int rank) const { return shares_[rank]; }
  const HeadGroup& group(int rank, int group) const { return groups_[rank][group]; }
  std::int64_t all_tokens() const;

  /// What a rank's heads of one group have at one token: with k and v, or their gradients, if these
  /// travel with this group.
  QkvRow qkv_row(int rank, int group) const;
  QkvRow gradient_row(int rank, int group) const;

  RowExchange::Sizes qkv(int group) const;
  RowExchange::Sizes gradients(int group) const;
  RowExchange::Sizes out(int group) const;
  RowExchange::Sizes lse() const;  // of all groups

  /// True if the rank before holds a copy of the same KV head.
  bool repeats_kv(int rank) const {
    return rank > 0 && shares_[rank].kv_heads.first == shares_[rank - 1].kv_heads.first;
  }

 private:
  template <typename RowBytes>
  RowExchange::Sizes sizes(const RowBytes& row_bytes) const;

  Shape shape_;
  std::vector<std::int64_t> tokens_;            // [rank]
  std::vector<HeadShare> shares_;               // [rank]
  std::vector<std::vector<HeadGroup>> groups_;  // [rank][group]
};

/// How many groups the shares of all ranks can be cut into, if so many are asked for.
int possible_groups(const std::vector<HeadShare>& shares, int asked);

}  // namespace ringspan::attention
