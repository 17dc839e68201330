// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/token_layout.hpp"

namespace ringspan::attention {

/// Part of a shard that lies in one document, and that document's extent in the sequence.
struct Segment {
  std::int64_t row = 0;  // of its first token, in the shard's storage order
  Run tokens;
  std::int64_t document = 0;  // -1 for padding
  std::int64_t document_first = 0;
  std::int64_t document_length = 0;
};

/// The shard cut at the document boundaries, in storage order. Runs that continue each other are
/// joined first.
std::vector<Segment> segments(const Shard& shard, const Sequence& sequence);

/// The same sequence seen as one document, followed by its padding if there is any.
Sequence without_boundaries(const Sequence& sequence);

}  // namespace ringspan::attention
