// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "bench/rows/csv_columns.hpp"

namespace ringspan::bench {

/// Fills the two efficiencies of a row from its baselines among the finished rows: the same
/// problem on one rank of the same machine, at equal global tokens (strong) and at equal tokens per
/// rank (weak); of the same schedule, else of the ring; among several, of the same commit, hop and
/// layout. Empty where there is none.
void fill_efficiencies(Row& row, std::span<const Cells> finished);

}  // namespace ringspan::bench
