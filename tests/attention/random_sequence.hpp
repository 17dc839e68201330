// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "attention/token_layout.hpp"

namespace ringspan::attention {

/// How often to repeat a test with random inputs; less often under a sanitizer, which is slow.
inline int trials(int count) {
#ifdef RINGSPAN_SANITIZED
  return std::max(count / 10, 1);
#else
  return count;
#endif
}

/// Uniform in [low, high].
inline std::int64_t pick(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// Up to `max_documents` documents of up to `max_length` tokens, many of them short or empty, and
/// sometimes padding behind them. One in five has no documents.
inline Sequence random_sequence(std::mt19937_64& random, std::int64_t max_documents,
                                std::int64_t max_length) {
  Sequence sequence;
  if (pick(random, 0, 4) == 0) return {.length = pick(random, 0, max_length)};
  for (std::int64_t n = pick(random, 1, max_documents); n > 0; --n) {
    sequence.documents.push_back(pick(random, 0, pick(random, 0, max_length)));
    sequence.length += sequence.documents.back();
  }
  sequence.length += std::max<std::int64_t>(0, pick(random, -max_length, max_length));
  return sequence;
}

}  // namespace ringspan::attention
