// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ringspan::comm::cuda {

/// What a block that is to be used again has, at least the bytes: eight sizes between two powers of
/// two, so that blocks fit again, and no more than an eighth is lost.
inline std::int64_t size_of_block(std::int64_t bytes) {
  constexpr std::int64_t kSmallest = 512;
  const auto wanted = static_cast<std::uint64_t>(std::max(bytes, kSmallest));
  const auto step = static_cast<std::int64_t>(std::bit_floor(wanted) / 8);
  return (static_cast<std::int64_t>(wanted) + step - 1) / step * step;
}

}  // namespace ringspan::comm::cuda
