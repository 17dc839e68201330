// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ringspan::model {

/// What the rows of activations are: [tokens][batch], one entry per row. Known on the host.
struct Tokens {
  std::int64_t batch = 1;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> labels;     // of the next token of the document, or kIgnoredLabel
  std::vector<std::int64_t> positions;  // in the document
  std::vector<std::int64_t> places;     // in the sequence
  std::vector<std::int64_t> samples;    // which sequence of the global batch
  std::vector<float> weights = {};      // of the loss; empty: all 1

  std::int64_t rows() const { return static_cast<std::int64_t>(ids.size()); }

  /// Some of the rows.
  Tokens part(std::int64_t first, std::int64_t count) const;
};

}  // namespace ringspan::model
