// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/run/known_costs.hpp"

namespace ringspan::bench {

/// One line: the costs, and where the hierarchical all-to-all pays among all of these ranks.
std::string summary(const ProbedCosts& probed);

/// Puts them into a JSON file that holds a list of such, in place of older ones of the same ranks.
/// Throws invalid_argument if the file holds something else, or cannot be written.
void store_costs(const std::string& file, const ProbedCosts& probed);

}  // namespace ringspan::bench
