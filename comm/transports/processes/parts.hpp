// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::comm::processes {

/// What a message is cut into: `count` parts of `bytes` each, but the last are shorter, or empty,
/// where nothing remains.
struct Parts {
  std::int64_t count = 1, bytes = 0;
};

/// The parts of a message of `bytes`, for a wire that takes up to `largest` at once, a multiple of
/// 8 KiB (with 1 GiB, as far as 2^47 bytes). The first of several is longer than a message in one
/// part can be, and tells how many they are: so a wrong size shows in one of them.
inline Parts parts_of(std::int64_t bytes, std::int64_t largest) {
  constexpr std::int64_t kPage = 4096;
  const std::int64_t whole = largest / 2;
  if (bytes <= whole) return {1, bytes};
  Parts parts{2, whole + 2 * kPage};
  while (parts.count * parts.bytes < bytes) ++parts.count, parts.bytes += kPage;
  return parts;
}

}  // namespace ringspan::comm::processes
