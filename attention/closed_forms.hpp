// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// What one rank sends in one pass.
struct Traffic {
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  std::int64_t inter_node_bytes = 0;
  Traffic& operator+=(const Traffic& other) {
    bytes += other.bytes;
    messages += other.messages;
    inter_node_bytes += other.inter_node_bytes;
    return *this;
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Traffic that a schedule on all ranks of a world must cause on rank `rank`, derived from the
/// problem (its layout, mask and sizes) and from where the ranks are, never from a plan or a
/// counter. `with_lse`: the lse is among the outputs. Sources of the formulas stand beside them in
/// the .cpp file. Throws invalid_argument for what a plan would refuse, but for what only its
/// kernels or their memory cannot hold.
Traffic forward_traffic(std::string_view schedule, const ScheduleOptions& options,
                        const Problem& problem, const comm::World& world, int rank,
                        bool with_lse = false);
Traffic backward_traffic(std::string_view schedule, const ScheduleOptions& options,
                         const Problem& problem, const comm::World& world, int rank);

/// The same of every rank, in about the time of one.
std::vector<Traffic> forward_traffic(std::string_view schedule, const ScheduleOptions& options,
                                     const Problem& problem, const comm::World& world);
std::vector<Traffic> backward_traffic(std::string_view schedule, const ScheduleOptions& options,
                                      const Problem& problem, const comm::World& world);

/// Over the whole sequence and batch, exact for the mask. Forward two products, q.k and p v:
/// 2 * visible pairs * heads * (head_dim + value_dim). Backward five, of which q.k, ds k and ds q
/// have head_dim and d_out.v and p d_out value_dim: 2 * visible pairs * heads * (3 head_dim + 2
/// value_dim), which is 2.5 times forward where the two are equal.
double forward_flops(const Problem& problem);
double backward_flops(const Problem& problem);

/// The same for the tokens of one shard; what balance is judged by. At most INT64_MAX.
std::int64_t visible_pairs(const Shard& queries, const Problem& problem);

}  // namespace ringspan::attention
