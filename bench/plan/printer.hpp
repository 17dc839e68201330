// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/plan/options.hpp"
#include "bench/plan/reasons.hpp"
#include "bench/plan/search.hpp"

namespace ringspan::bench {

/// A plan as a person reads it: the best few, and why.
std::string table(const PlanOptions& options, const SearchResult& result, const Reasons& reasons);

/// The same, of all candidates, as JSON. What is under "predicted" is; what is under "at_least" is
/// a lower bound of that.
std::string json(const PlanOptions& options, const SearchResult& result, const Reasons& reasons);

}  // namespace ringspan::bench
