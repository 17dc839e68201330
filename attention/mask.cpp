// SPDX-License-Identifier: Apache-2.0
#include "attention/mask.hpp"

#include <algorithm>
#include <charconv>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using Bound = std::optional<std::int64_t>;

constexpr std::string_view kGrammar =
    "full, causal, window:LEFT[:RIGHT] and documents, joined by +";

void tighten(Bound& bound, const Bound& other) {
  if (other) bound = std::min(bound.value_or(*other), *other);
}

Bound parse_bound(std::string_view text, std::string_view part) {
  if (text == "*") return std::nullopt;
  std::int64_t tokens = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  RINGSPAN_REQUIRE(error == std::errc() && end == text.data() + text.size() && tokens >= 0,
                   "mask part '", part, "': '", text,
                   "' is not a number of tokens, 0 or more (or * for no bound)");
  return tokens;
}

Mask parse_window(std::string_view part) {
  const std::string_view bounds = part.substr(part.find(':') + 1);
  const std::size_t colon = bounds.find(':');
  return {.left = parse_bound(bounds.substr(0, colon), part),
          .right = colon == bounds.npos ? 0 : parse_bound(bounds.substr(colon + 1), part)};
}

Mask parse_part(std::string_view part) {
  if (part == "full") return {};
  if (part == "causal") return {.right = 0};
  if (part == "documents") return {.documents = true};
  if (part.starts_with("window:")) return parse_window(part);
  RINGSPAN_REQUIRE(false, "unknown mask part '", part, "'; known are ", kGrammar);
  return {};
}

std::string bound_name(const Bound& bound) { return bound ? std::to_string(*bound) : "*"; }

}  // namespace

Mask parse_mask(std::string_view text) {
  Mask mask;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const Mask part = parse_part(text.substr(begin, end - begin));
    tighten(mask.left, part.left);
    tighten(mask.right, part.right);
    mask.documents |= part.documents;
    if (end == text.size()) return mask;
    begin = end + 1;
  }
}

std::string name(const Mask& mask) {
  std::string text;
  if (mask.left) {
    text = concat("window:", *mask.left);
    if (mask.right != 0) text += concat(":", bound_name(mask.right));
  } else if (mask.right) {
    text = mask.right == 0 ? "causal" : concat("window:*:", *mask.right);
  }
  if (mask.documents) text += text.empty() ? "documents" : "+documents";
  return text.empty() ? "full" : text;
}

}  // namespace ringspan::attention
