// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/rows/csv_columns.hpp"

namespace ringspan::bench {

/// Appends finished rows to a file, each written on its own, so that an interruption loses none.
/// Opening fails before anything has been measured, also while another process appends to the file.
/// A file that this created and that gets no row is not left behind.
class CsvReporter {
 public:
  /// Throws invalid_argument if `path` cannot be written. A file without anything in it gets the
  /// header before its first row.
  explicit CsvReporter(std::string path);
  CsvReporter(const CsvReporter&) = delete;
  CsvReporter& operator=(const CsvReporter&) = delete;
  ~CsvReporter();

  /// Throws system if the file system refuses; the file then ends with the row before.
  void append(const Cells& row);

 private:
  void write(const std::string& lines);

  std::string path_;
  bool created_;  // by this; until it gets a row
  int file_;
};

}  // namespace ringspan::bench
