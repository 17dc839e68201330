// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_reporter.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

std::string field_text(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

template <typename Fields>
std::string line(const Fields& fields) {
  std::string text;
  for (const auto& field : fields) text += field_text(field) + ',';
  text.back() = '\n';
  return text;
}

}  // namespace

CsvReporter::CsvReporter(std::string path)
    : path_(std::move(path)),
      created_(!std::filesystem::exists(path_)),
      file_(path_, std::ios::app | std::ios::binary) {
  RINGSPAN_REQUIRE(file_, "--csv: cannot write ", path_, ": ", std::strerror(errno));
  fresh_ = file_.seekp(0, std::ios::end).tellp() == 0;
}

CsvReporter::~CsvReporter() {
  std::error_code ignored;
  if (created_) std::filesystem::remove(path_, ignored);
}

void CsvReporter::append(const Cells& row) {
  created_ = false;
  write(std::exchange(fresh_, false) ? line(kColumns) + line(row) : line(row));
}

void CsvReporter::write(const std::string& line) {
  file_ << line << std::flush;
  if (!file_) throw Error(ErrorKind::system, "cannot write " + path_ + ": " + std::strerror(errno));
}

}  // namespace ringspan::bench
