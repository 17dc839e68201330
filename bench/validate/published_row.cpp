// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/published_row.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "bench/rows/csv_lines.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// All of the text, or nothing.
template <typename Number>
bool parse(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

}  // namespace

FigureName PublishedRow::name(std::string_view part) const {
  const auto text = [this](std::string_view column) { return has(column) ? (*this)[column] : ""; };
  return {text("system"), text("figure_id"), concat(place_, part.empty() ? "" : " ", part)};
}

const std::string& PublishedRow::operator[](std::string_view column) const {
  const auto found = fields_.find(column);
  RINGSPAN_REQUIRE(found != fields_.end(), place_, ": there is no column '", column, "'");
  return found->second;
}

std::int64_t PublishedRow::integer(std::string_view column) const {
  const std::string& text = (*this)[column];
  std::string_view digits = text;
  std::int64_t unit = 1;
  if (digits.ends_with("i")) digits.remove_suffix(1);
  if (digits.ends_with("K")) unit = std::int64_t{1} << 10;
  if (digits.ends_with("M")) unit = std::int64_t{1} << 20;
  if (unit > 1) digits.remove_suffix(1);
  std::int64_t value = 0;
  RINGSPAN_REQUIRE(parse(digits, value) && !__builtin_mul_overflow(value, unit, &value), place_,
                   ": ", column, " is '", text, "'; it must be a whole number such as 8 or 32K");
  return value;
}

double PublishedRow::number(std::string_view column, std::size_t which) const {
  const std::string& text = (*this)[column];
  std::string_view rest = text;
  for (std::size_t i = 0; i < which && !rest.empty(); ++i) {
    rest.remove_prefix(std::min(rest.find(';'), rest.size() - 1) + 1);
  }
  double value = 0;
  RINGSPAN_REQUIRE(parse(rest.substr(0, rest.find(';')), value) && std::isfinite(value), place_,
                   ": ", column, " is '", text, "'; it must be ",
                   which > 0 ? concat(which + 1, " numbers, as 1;2") : std::string("a number"));
  return value;
}

double PublishedRow::figure(std::string_view column, std::size_t which) const {
  const double value = number(column, which);
  RINGSPAN_REQUIRE(value > 0, place_, ": ", column, " is '", (*this)[column],
                   "'; a published figure must be above 0");
  return value;
}

std::optional<double> PublishedRow::number_behind(std::string_view column,
                                                  std::string_view key) const {
  const std::string& text = (*this)[column];
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  double value = 0;
  const char* begin = text.data() + at + key.size();
  if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

int PublishedRow::degree(std::string_view key) const {
  constexpr int kLargest = 1 << 15;  // so that products of four fit
  const std::string& config = (*this)["config"];
  if (!contains(config, key)) return 1;
  const double value = number_behind("config", key).value_or(0);
  RINGSPAN_REQUIRE(value >= 1 && value <= kLargest && value == std::floor(value), place_,
                   ": config is '", config, "'; behind '", key,
                   "' must be a whole number from 1 to ", kLargest);
  return static_cast<int>(value);
}

int gpus(const PublishedRow& row) {
  constexpr int kMost = 1 << 20;
  const std::int64_t gpus = row.integer("gpus");
  RINGSPAN_REQUIRE(gpus >= 1 && gpus <= kMost, row.place(), ": gpus is ", gpus,
                   "; it must be from 1 to ", kMost);
  return static_cast<int>(gpus);
}

std::vector<PublishedRow> read_published(const std::string& path) {
  const CsvLines file = read_csv_lines(path);
  RINGSPAN_REQUIRE(file.lines.size() > 1, path, ": no rows; it needs a header and rows");
  const std::vector<std::string>& header = file.lines[0];
  const std::string name = std::filesystem::path(path).filename().string();
  std::vector<PublishedRow> rows;
  for (std::size_t i = 1; i < file.lines.size(); ++i) {
    const std::vector<std::string>& fields = file.lines[i];
    RINGSPAN_REQUIRE(fields.size() == header.size(), path, ", line ", i + 1, ": ", fields.size(),
                     " fields where the header has ", header.size());
    PublishedRow::Fields named;
    for (std::size_t j = 0; j < fields.size(); ++j) named.emplace(header[j], fields[j]);
    rows.emplace_back(concat(name, ':', i + 1), std::move(named));
  }
  return rows;
}

}  // namespace ringspan::bench
