// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/schedule.hpp"
#include "attention/schedules/head_split.hpp"

namespace ringspan::attention {

/// How the ranks of ulysses share heads, and each rank its own among groups, [rank][group]: as many
/// groups as asked for, but no more than the rank with the fewest heads has. KV heads of a group
/// are counted from the first of its rank.
std::vector<std::vector<HeadShare>> grouped_heads(const Shape& shape, int ranks, int head_groups);

/// What a pass moves between tokens and heads.
struct UlyssesExchanges {
  bool forward = true;
  comm::AllToAllAlgorithm algorithm = comm::AllToAllAlgorithm::direct;
  int head_groups = 1;
  bool with_lse = false;
  bool resends = false;  // in the backward pass q, k, v and out
};

/// The all-to-alls of one pass in a ulysses group whose inner shard has `tokens` tokens.
Traffic ulysses_traffic(const UlyssesExchanges& exchanges, const Shape& shape, std::int64_t tokens,
                        const Group& group);

}  // namespace ringspan::attention
