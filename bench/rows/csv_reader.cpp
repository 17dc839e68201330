// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_reader.hpp"

#include <algorithm>
#include <utility>

#include "bench/rows/csv_lines.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

void require_columns(const std::string& path, const std::vector<std::string>& header) {
  const auto [ours, theirs] =
      std::mismatch(kColumns.begin(), kColumns.end(), header.begin(), header.end());
  if (ours == kColumns.end() && theirs == header.end()) return;
  RINGSPAN_REQUIRE(false, path, ": column ", ours - kColumns.begin() + 1, " is '",
                   theirs == header.end() ? "" : *theirs, "' where this version writes '",
                   ours == kColumns.end() ? "" : *ours, "'; give another file name");
}

}  // namespace

std::vector<Cells> read_csv(const std::string& path) {
  CsvLines lines = read_csv_lines(path);
  if (lines.lines.empty()) return {};
  require_columns(path, lines.lines[0]);
  RINGSPAN_REQUIRE(!lines.unfinished || lines.lines.size() > 1, path,
                   ", line 1: no line end; remove the file");

  std::vector<Cells> rows;
  for (std::size_t i = 1; i < lines.lines.size(); ++i) {
    std::vector<std::string>& fields = lines.lines[i];
    const bool unfinished = lines.unfinished && i + 1 == lines.lines.size();
    RINGSPAN_REQUIRE(fields.size() == kColumns.size() && !unfinished, path, ", line ", i + 1, ": ",
                     fields.size(), " fields", unfinished ? " and no line end" : "", " where ",
                     kColumns.size(), " are expected; remove the line");
    std::move(fields.begin(), fields.end(), rows.emplace_back().begin());
  }
  return rows;
}

}  // namespace ringspan::bench
