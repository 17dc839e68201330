// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/plan/options.hpp"
#include "bench/plan/search.hpp"

namespace ringspan::bench {

/// A way to share sequences that is not the best, and what is wrong with it.
struct RuledOut {
  std::string what, why;
};

/// Why a plan says what it says, in sentences; whatever figures are in them are predicted.
struct Reasons {
  std::vector<std::string> best;
  std::vector<RuledOut> ruled_out;
};
Reasons reasons(const PlanOptions& options, const SearchResult& result);

}  // namespace ringspan::bench
