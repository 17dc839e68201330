// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/token_layout.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::model {

/// Images (or frames) in a sequence of tokens are sharded twice (MM-SP, arXiv 2408.10188, section
/// 3): whole ones by number, so that each rank encodes as many as the others, and then, with the
/// features gathered, all tokens by count, text and images alike, as the schedule says.
/// `images` are the places in the sequence that each takes up, in order.

/// Stage 1: what one rank encodes, and the rows of all features, [rows][hidden] in the order of
/// images, that come of it: parts of an all-gather, uneven or empty.
struct EncoderShare {
  Part images;
  Part rows;
};
std::vector<EncoderShare> encoder_shares(std::span<const Part> images, int ranks);

/// Stage 2: for each token of a shard, in storage order, its row of all features, or -1 for a token
/// that is text or padding and has an embedding.
std::vector<std::int64_t> feature_rows(std::span<const Part> images, const attention::Shard& shard);

/// Targets that image tokens are not among: `ids`, or `targets` where there are any, with
/// kIgnoredLabel for every token of an image.
std::vector<std::int64_t> text_targets(std::span<const Part> images,
                                       std::vector<std::int64_t> targets);

}  // namespace ringspan::model
