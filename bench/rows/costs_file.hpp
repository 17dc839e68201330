// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/run/known_costs.hpp"

namespace ringspan::bench {

/// One line: the costs, and where the hierarchical all-to-all pays among these ranks.
std::string summary(const ProbedCosts& probed);

/// Puts them into a JSON file that holds a list of such, in place of older ones of the same ranks.
/// What is in the file stays if that fails.
void store_costs(const std::string& file, const ProbedCosts& probed);

/// Throws invalid_argument if the file cannot be written or holds something else.
void require_costs_file(const std::string& file);

}  // namespace ringspan::bench
