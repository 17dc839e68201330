// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "attention/schedule.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {

/// A Saved that knows which plan made it and whether a forward pass has filled it.
struct PlanSaved : Saved {
  explicit PlanSaved(const Plan& made_by) : plan(made_by.identity()) {}
  std::shared_ptr<const void> plan;
  bool filled = false;
};

/// Unfilled until the pass is over: one that fails leaves a mixture; one that is refused must not,
/// so arguments are checked first. Throws invalid_argument if another plan made it.
template <typename Own>
Own* saved_to_fill(const Plan& plan, Saved* saved) {
  if (!saved) return nullptr;
  auto* const own = dynamic_cast<Own*>(saved);
  RINGSPAN_REQUIRE(own && own->plan == plan.identity(),
                   "saved is not from make_saved() of this plan");
  own->filled = false;
  return own;
}

/// Throws invalid_argument if another plan made it or no forward pass has filled it.
template <typename Own>
const Own& saved_to_read(const Plan& plan, const Saved& saved) {
  const auto* const own = dynamic_cast<const Own*>(&saved);
  RINGSPAN_REQUIRE(own && own->plan == plan.identity(),
                   "saved is not from make_saved() of this plan");
  RINGSPAN_REQUIRE(own->filled, "saved was not filled: pass it to forward() before backward()");
  return *own;
}

}  // namespace ringspan::attention
