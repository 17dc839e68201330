// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/ring_levels.hpp"
#include "attention/schedules/ring_steps.hpp"
#include "comm/double_ring.hpp"

namespace ringspan::attention {

/// Blocks of one format (KvFormat, QueryFormat) on their way around a ring. A rank uses its own
/// block where the caller has it; what it hands on is a copy.
///   if begin() gives a block, write the own one there; then per step: start(), block(), finish().
template <typename Format>
class BlockRing {
 public:
  BlockRing(const RingLevels& levels, Format format, RingSteps ring)
      : format_(std::move(format)),
        steps_(std::move(ring.steps)),
        own_moves_(ring.hops.front().inner_hop.sent > 0 || ring.hops.front().outer_hop.sent > 0),
        ring_(levels.inner, levels.outer, steps_.size() > 1 ? format_.bytes(ring.largest) : 0,
              std::move(ring.hops)) {}

  const std::vector<RingStep>& steps() const { return steps_; }
  bool own(const RingStep& step) const { return &step == &steps_.front(); }

  /// This rank's own block, to be written, unless nobody else needs it.
  auto begin() {
    std::byte* const data = ring_.begin().data();
    return own_moves_ ? std::optional(format_.block(data, steps_.front().tokens)) : std::nullopt;
  }

  /// The next block begins to move while the one of this step, if not its own, is in use.
  void start() { ring_.start(); }
  auto block(const RingStep& step) const { return format_.view(ring_.block().data(), step.tokens); }
  void finish() { ring_.finish(); }

 private:
  Format format_;
  std::vector<RingStep> steps_;
  bool own_moves_;
  comm::DoubleRing ring_;
};

}  // namespace ringspan::attention
