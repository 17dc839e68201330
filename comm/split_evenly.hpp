// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan {

/// A run of something countable.
struct Part {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Part `index` of `total` things cut into `parts` near-equal pieces, the larger ones first; pieces
/// may be empty. The only place where anything is divided among ranks.
constexpr Part split_evenly(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t base = total / parts, larger = total % parts;
  return {index * base + (index < larger ? index : larger), base + (index < larger ? 1 : 0)};
}

}  // namespace ringspan
