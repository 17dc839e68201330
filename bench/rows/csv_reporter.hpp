// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include "bench/rows/csv_columns.hpp"

namespace ringspan::bench {

/// Appends finished rows to a file, each written and flushed on its own, so that an interruption
/// loses none. Opening fails before anything has been measured; a file that this created and that
/// gets no row is not left behind.
class CsvReporter {
 public:
  /// Throws invalid_argument if `path` cannot be written. A file without anything in it gets the
  /// header before its first row.
  explicit CsvReporter(std::string path);
  CsvReporter(const CsvReporter&) = delete;
  CsvReporter& operator=(const CsvReporter&) = delete;
  ~CsvReporter();

  /// Throws system if the file system refuses.
  void append(const Cells& row);

 private:
  void write(const std::string& line);

  std::string path_;
  bool created_;        // by this; until it gets a row
  bool fresh_ = false;  // has no header yet
  std::ofstream file_;
};

}  // namespace ringspan::bench
