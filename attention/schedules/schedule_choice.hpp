// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// What a schedule's name and options come to.
struct ScheduleChoice {
  enum class Family { ring, ulysses, usp, all_gather_kv };
  Family family = Family::ring;
  LayoutKind layout = LayoutKind::contiguous;
};

/// Throws invalid_argument for unknown names, listing the known ones, and for options that the
/// schedule does not have.
ScheduleChoice choose_schedule(std::string_view name, const ScheduleOptions& options);

/// Where a rank stands in the two dimensions of usp.
struct UspPosition {
  int ulysses_degree = 1, ulysses_rank = 0;
  int ring_degree = 1, ring_rank = 0;
};

/// Throws invalid_argument, listing the legal degrees, unless the degree divides the ranks.
UspPosition usp_position(int ulysses_degree, Placement placement, int ranks, int rank);

}  // namespace ringspan::attention
