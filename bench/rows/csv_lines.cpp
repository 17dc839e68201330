// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_lines.hpp"

#include <csv.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // what spreadsheets begin UTF-8 with

/// What libcsv's callbacks fill.
struct Reading {
  CsvLines whole;
  std::vector<std::string> fields;  // of the line being read
};

void end_field(void* bytes, std::size_t size, void* reading) {
  static_cast<Reading*>(reading)->fields.emplace_back(static_cast<const char*>(bytes), size);
}

void end_line(int terminator, void* data) {
  auto* reading = static_cast<Reading*>(data);
  reading->whole.unfinished = terminator == -1;
  reading->whole.lines.push_back(std::exchange(reading->fields, {}));
}

}  // namespace

CsvLines read_csv_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  RINGSPAN_REQUIRE(file, "cannot read ", path);
  std::string_view text = all;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  csv_parser parser;
  RINGSPAN_REQUIRE(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, path, ": out of memory");
  const std::unique_ptr<csv_parser, void (*)(csv_parser*)> owner(&parser, csv_free);
  Reading reading;
  const bool whole =
      csv_parse(&parser, text.data(), text.size(), end_field, end_line, &reading) == text.size() &&
      csv_fini(&parser, end_field, end_line, &reading) == 0;
  RINGSPAN_REQUIRE(whole, path, ", line ", reading.whole.lines.size() + 1,
                   ": broken quotes; remove the line or the file");
  return std::move(reading.whole);
}

}  // namespace ringspan::bench
