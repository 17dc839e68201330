// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringspan::attention {

/// Which keys a query sees, as a predicate on global positions and documents; never on rows or
/// corners. Parts combine with "and". `left` and `right` bound how far a key may lie before and
/// behind the query (causal is right = 0; unset is unbounded). With `documents`, only keys of the
/// query's own document are visible. Padding sees nothing and is never seen, whatever the mask.
struct Mask {
  std::optional<std::int64_t> left = {};
  std::optional<std::int64_t> right = {};
  bool documents = false;

  friend bool operator==(const Mask&, const Mask&) = default;
};

/// full | causal | window:LEFT[:RIGHT] | documents, joined by '+'. window:LEFT is window:LEFT:0.
/// Throws invalid_argument, saying what is known. (Document lengths belong to the Sequence, not to
/// the mask.)
Mask parse_mask(std::string_view text);
std::string name(const Mask& mask);

}  // namespace ringspan::attention
