// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/axes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::size_t kMostValues = 100'000;  // of one axis; more is a slip of the pen

/// 8, 4Ki, 1Mi, 2Gi; nothing for anything else, or what does not fit in 64 bits.
std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(rest, end - rest);
  constexpr std::string_view kSuffixes[] = {"", "Ki", "Mi", "Gi"};
  const auto* known = std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix);
  if (known == std::end(kSuffixes)) return std::nullopt;
  const std::int64_t unit = std::int64_t{1} << (10 * (known - kSuffixes));
  if (__builtin_mul_overflow(value, unit, &value)) return std::nullopt;
  return value;
}

std::int64_t integer(std::string_view option, std::string_view text, std::int64_t least) {
  const std::optional<std::int64_t> value = integer(text);
  RINGSPAN_REQUIRE(
      value, option, ": '", text,
      "' is not a whole number of 64 bits; write 8, 4Ki, a comma list or a range as 4Ki:64Ki:x2");
  RINGSPAN_REQUIRE(*value >= least, option, ": ", text, " is too small; the least is ", least);
  return *value;
}

/// Cuts at every `separator`; "a,,b" and "a," have an empty piece.
std::vector<std::string_view> cut(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

/// first:last:xFACTOR or first:last:+STEP, both ends included where they are reached.
void append_range(std::string_view option, std::string_view text, std::int64_t least,
                  std::vector<std::int64_t>& values) {
  const std::vector<std::string_view> parts = cut(text, ':');
  const bool shaped =
      parts.size() == 3 && parts[2].size() > 1 && (parts[2][0] == 'x' || parts[2][0] == '+');
  RINGSPAN_REQUIRE(
      shaped, option, ": '", text,
      "' is not a range; write FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, as 4Ki:64Ki:x2");
  const std::string range = concat(option, ": range '", text, "'");
  const std::int64_t first = integer(range, parts[0], least);
  const std::int64_t last = integer(range, parts[1], least);
  const bool times = parts[2][0] == 'x';
  const std::int64_t step = integer(range, parts[2].substr(1), times ? 2 : 1);
  RINGSPAN_REQUIRE(first <= last, range, " ends before it begins");
  RINGSPAN_REQUIRE(!times || first > 0, range, " never leaves zero");
  for (std::int64_t value = first; value <= last;) {
    values.push_back(value);
    RINGSPAN_REQUIRE(values.size() <= kMostValues, range, " has more than ", kMostValues,
                     " values");
    if (times ? __builtin_mul_overflow(value, step, &value)
              : __builtin_add_overflow(value, step, &value)) {
      return;
    }
  }
}

}  // namespace

std::vector<std::string> items(std::string_view option, std::string_view text) {
  std::vector<std::string> values;
  for (const std::string_view item : cut(text, ',')) {
    RINGSPAN_REQUIRE(!item.empty(), option, ": '", text, "' has an empty item; write a comma list");
    values.emplace_back(item);
  }
  return values;
}

std::vector<std::int64_t> integers(std::string_view option, std::string_view text,
                                   std::int64_t least) {
  std::vector<std::int64_t> values;
  for (const std::string& item : items(option, text)) {
    if (item.find(':') == std::string::npos) {
      values.push_back(integer(option, item, least));
    } else {
      append_range(option, item, least, values);
    }
  }
  return values;
}

std::vector<std::string> names(std::string_view option, std::string_view text,
                               std::span<const std::string_view> known) {
  std::vector<std::string> values = items(option, text);
  std::string list;
  for (const std::string_view name : known) list += concat(list.empty() ? "" : ", ", name);
  for (const std::string& value : values) {
    RINGSPAN_REQUIRE(std::find(known.begin(), known.end(), value) != known.end(), option,
                     ": unknown value '", value, "'; known are ", list);
  }
  return values;
}

std::vector<std::string> masks(std::string_view option, std::string_view text) {
  std::vector<std::string> values;
  for (const std::string& item : items(option, text)) {
    const bool continues = item[0] >= '0' && item[0] <= '9';
    RINGSPAN_REQUIRE(!continues || !values.empty(), option, ": '", text,
                     "' begins with a number; write full, causal, window:LEFT[:RIGHT], "
                     "documents:N,N,... or documents:sampled, joined by +");
    if (continues) {
      values.back() += concat(",", item);
    } else {
      values.push_back(item);
    }
  }
  return values;
}

double number(std::string_view option, std::string_view text, double least, bool exclusive) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  RINGSPAN_REQUIRE(error == std::errc() && rest == end && std::isfinite(value), option, ": '", text,
                   "' is not a number");
  RINGSPAN_REQUIRE(exclusive ? value > least : value >= least, option, ": ", text,
                   " is too small; it must be ", exclusive ? "above " : "at least ", least);
  return value;
}

}  // namespace ringspan::bench
