// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// What a schedule's name and options come to.
struct ScheduleChoice {
  enum class Family {
    ring,
    double_ring,
    bidirectional_ring,
    ulysses,
    usp,
    all_gather_kv,
    dist_flash,
    ring_self_attention,
    halo
  };
  Family family = Family::ring;
  LayoutKind layout = LayoutKind::contiguous;
  int head_groups = 1;  // of ulysses and usp
};

/// Throws invalid_argument for unknown names, listing the known ones, and for options that the
/// schedule does not have.
ScheduleChoice choose_schedule(std::string_view name, const ScheduleOptions& options);

}  // namespace ringspan::attention
