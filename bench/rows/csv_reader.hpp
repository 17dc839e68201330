// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/rows/csv_columns.hpp"

namespace ringspan::bench {

/// The rows of a file that this tool wrote. Throws invalid_argument, naming the line, for other
/// columns and for broken or unfinished lines. An empty file has no rows.
std::vector<Cells> read_csv(const std::string& path);

}  // namespace ringspan::bench
