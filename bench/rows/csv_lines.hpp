// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ringspan::bench {

/// The fields of every line of a CSV.
struct CsvLines {
  std::vector<std::vector<std::string>> lines;
  bool unfinished = false;  // the last line has no line end
};

/// Behind the byte order mark, if there is one. Throws invalid_argument, naming the line, for broken
/// quotes and what cannot be read.
CsvLines read_csv_lines(const std::string& path);

}  // namespace ringspan::bench
