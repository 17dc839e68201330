// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_reader.hpp"

#include <csv.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// What libcsv's callbacks fill.
struct Lines {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> fields;  // of the line being read
  bool unfinished = false;          // the last line has no line end
};

void end_field(void* bytes, std::size_t size, void* lines) {
  static_cast<Lines*>(lines)->fields.emplace_back(static_cast<const char*>(bytes), size);
}

void end_line(int terminator, void* data) {
  auto* lines = static_cast<Lines*>(data);
  lines->unfinished = terminator == -1;
  lines->lines.push_back(std::move(lines->fields));
  lines->fields.clear();
}

Lines parse(const std::string& path, const std::string& text) {
  csv_parser parser;
  RINGSPAN_REQUIRE(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, path, ": out of memory");
  const std::unique_ptr<csv_parser, void (*)(csv_parser*)> owner(&parser, csv_free);
  Lines lines;
  const bool whole =
      csv_parse(&parser, text.data(), text.size(), end_field, end_line, &lines) == text.size() &&
      csv_fini(&parser, end_field, end_line, &lines) == 0;
  RINGSPAN_REQUIRE(whole, path, ", line ", lines.lines.size() + 1,
                   ": broken quotes; remove the line or the file");
  return lines;
}

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
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  RINGSPAN_REQUIRE(file, "cannot read ", path);
  Lines lines = parse(path, text);
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
