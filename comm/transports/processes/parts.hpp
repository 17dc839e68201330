// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::comm::processes {

/// Into what a message is cut: the last parts are shorter, or empty, where nothing remains.
struct Cut {
  std::int64_t parts = 1, bytes_each = 0;
};

/// How a message of `bytes` is cut for a wire that takes up to `largest` at once, a multiple of
/// 8 KiB (with 1 GiB, as far as 2^47 bytes). The first of several parts is longer than a message in
/// one part can be, and tells how many they are: so a wrong size shows in one of them.
inline Cut cut_of(std::int64_t bytes, std::int64_t largest) {
  constexpr std::int64_t kPage = 4096;
  const std::int64_t whole = largest / 2;
  if (bytes <= whole) return {1, bytes};
  Cut cut{2, whole + 2 * kPage};
  while (cut.parts * cut.bytes_each < bytes) ++cut.parts, cut.bytes_each += kPage;
  return cut;
}

}  // namespace ringspan::comm::processes
