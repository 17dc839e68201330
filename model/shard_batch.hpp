// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/token_layout.hpp"
#include "model/sample.hpp"
#include "model/tokens.hpp"

namespace ringspan::model {

/// What each token of a whole sample predicts: the target of the next one of its document, with
/// that one's weight. Shifted here, once, before anything is cut: so every token but the last of a
/// document has its label, wherever the next token lies.
struct NextTokens {
  std::vector<std::int64_t> labels;  // kIgnoredLabel at the end of a document, and in padding
  std::vector<float> weights;        // 0 where the label is ignored; empty: all 1
};
NextTokens next_tokens(const Sample& sample, const attention::Sequence& sequence);

/// One rank's shard of a batch: rows [tokens of the shard][batch] in storage order. `sequence` is
/// common_sequence() of the batch, `shard` what the schedule says of it (Schedule::shard), and
/// `first_sample` the place of the first sample in the global batch. Padding has id 0, position 0
/// and no label. Local: it needs no other rank.
Tokens shard_batch(std::span<const Sample> batch, const attention::Sequence& sequence,
                   const attention::Shard& shard, std::int64_t first_sample = 0);

}  // namespace ringspan::model
