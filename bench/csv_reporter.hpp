// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include "bench/csv_columns.hpp"

namespace ringspan::bench {

/// Appends finished rows to a file, each written and flushed on its own, so that an interruption
/// loses none. Opening fails before anything has been measured; a file that gets no row is not
/// left behind.
class CsvReporter {
 public:
  /// Throws invalid_argument if `path` cannot be written. `fresh`: it has no header yet.
  CsvReporter(std::string path, bool fresh);
  CsvReporter(const CsvReporter&) = delete;
  CsvReporter& operator=(const CsvReporter&) = delete;
  ~CsvReporter();

  /// Throws system if the file system refuses.
  void append(const Cells& row);

 private:
  void write(const std::string& line);

  std::string path_;
  bool fresh_;
  std::ofstream file_;
};

}  // namespace ringspan::bench
