// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringspan::bench {

/// Which of all published figures one is.
struct FigureName {
  std::string system, figure;  // "USP", "T4"
  std::string row;             // "usp.csv:12", with more where a line holds several: "... zigzag"

  friend auto operator<=>(const FigureName&, const FigureName&) = default;
};

/// One line of a CSV of published figures, by the names of its columns.
class PublishedRow {
 public:
  using Fields = std::map<std::string, std::string, std::less<>>;
  PublishedRow(std::string place, Fields fields)
      : place_(std::move(place)), fields_(std::move(fields)) {}

  /// "usp.csv:12".
  const std::string& place() const { return place_; }

  /// `part`: of the line's figures. System and figure are those of the columns system and
  /// figure_id, where there are such.
  FigureName name(std::string_view part = "") const;

  bool has(std::string_view column) const { return fields_.count(column) > 0; }

  /// Throws invalid_argument, naming the place, if there is no such column.
  const std::string& operator[](std::string_view column) const;

  /// A whole number; 32K, 1M (of 1024) and 512Ki are understood. Throws invalid_argument, naming
  /// place and column, for anything else.
  std::int64_t integer(std::string_view column) const;

  /// Of several numbers, separated by semicolons, one. Throws as integer().
  double number(std::string_view column, std::size_t which = 0) const;

  /// The same of a figure that errors are relative to: it must be above 0.
  double figure(std::string_view column, std::size_t which = 0) const;

  /// What is behind a key somewhere in the text, as 4 behind "ring=" in "ulysses=2 ring=4".
  std::optional<double> number_behind(std::string_view column, std::string_view key) const;

  /// The whole number behind `key` in the column config, as 4 behind "tp=" in "tp=4 ulysses=2"; 1
  /// without such a key. Throws as integer() for what is no degree.
  int degree(std::string_view key) const;

 private:
  std::string place_;
  Fields fields_;
};

/// Whether a column's text has these words.
inline bool contains(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

/// The column gpus. Throws invalid_argument, naming the place, for what can be none.
int gpus(const PublishedRow& row);

/// Throws invalid_argument, naming the line, for what is no CSV with a header.
std::vector<PublishedRow> read_published(const std::string& path);

}  // namespace ringspan::bench
