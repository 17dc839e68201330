// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bench/rows/csv_columns.hpp"

namespace ringspan::bench {

/// Which points of a sweep the file that it continues holds already.
struct HeldPoints {
  std::vector<std::size_t> missing;  // those without a row, in order
  std::size_t elsewhere = 0;         // those whose rows are all of another machine or commit
};

/// `points`: the row that each would have here, without a result.
HeldPoints held_points(std::span<const Cells> points, std::span<const Cells> rows);

}  // namespace ringspan::bench
