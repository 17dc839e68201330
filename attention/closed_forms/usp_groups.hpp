// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/schedule.hpp"

namespace ringspan::attention {

/// The two groups that a rank of usp belongs to.
struct UspGroups {
  Group ulysses;
  std::vector<comm::Place> ring;  // [rank of the ring]
  int ring_rank = 0;
};

UspGroups usp_groups(const ScheduleOptions& options, const comm::World& world, int rank);

}  // namespace ringspan::attention
