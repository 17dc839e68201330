// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/rows/csv_line.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

/// A file that was not there before, or none where the path is empty. Rows are there as soon as
/// they are appended; if none was, the file goes again, so that the command can be repeated.
class NewCsv {
 public:
  using Fields = std::vector<std::string>;

  NewCsv(const std::string& path, const Fields& header) : path_(path) {
    if (path.empty()) return;
    std::error_code ignored;
    RINGSPAN_REQUIRE(!std::filesystem::exists(path, ignored), "--csv: ", path,
                     " exists; give another name");
    file_.open(path);
    RINGSPAN_REQUIRE(file_, "--csv: cannot write ", path);
    try {
      write(header);
    } catch (const Error&) {
      remove();
      throw;
    }
  }
  ~NewCsv() {
    if (!path_.empty() && !any_) remove();
  }
  NewCsv(const NewCsv&) = delete;
  NewCsv& operator=(const NewCsv&) = delete;

  void append(const Fields& fields) {
    if (path_.empty()) return;
    any_ = true;
    write(fields);
  }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  void write(const Fields& fields) {
    file_ << csv_line(fields) << std::flush;
    if (!file_) throw Error(ErrorKind::system, concat("--csv: cannot write ", path_));
  }

  std::string path_;
  std::ofstream file_;
  bool any_ = false;
};

}  // namespace ringspan::bench
