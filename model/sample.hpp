// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/token_layout.hpp"
#include "comm/communicator.hpp"

namespace ringspan::model {

/// One sequence of tokens as a data loader has it: whole, and nothing shifted. Targets and weights
/// belong to the token that is to be predicted, not to the one that predicts it.
struct Sample {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> documents = {};  // lengths in order; empty: one. What is behind them,
                                             // and what a batch appends, is padding
  std::vector<std::int64_t> targets = {};    // of each token its id or kIgnoredLabel; empty: ids
  std::vector<float> weights = {};           // of each token's loss; empty: 1. 0 is ignored

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// Throws invalid_argument for what no sample is.
void require_valid(const Sample& sample);

/// What the samples of one batch are to attention: all are as long and cut alike, or it throws
/// invalid_argument. With a `length` they are padded to it, which is at least theirs; 0 leaves each
/// batch its own. Batches share one plan where this is the same of all of them: padded samples of
/// other lengths, or cut otherwise, are another problem.
attention::Sequence common_sequence(std::span<const Sample> batch, std::int64_t length = 0);

/// Collective: rank `root`'s samples, on every rank. Where each rank of a group brings its own, the
/// group takes them in turn: root = 0, 1, ..., size() - 1, a batch each. Throws invalid_argument on
/// the root, and so peer_failed on the others, for what no sample is.
std::vector<Sample> share(const comm::Communicator& group, std::span<const Sample> own, int root);

/// Collective, a check for debugging: throws invalid_argument on every rank, naming those that
/// differ from most, unless all have the same samples. One number per rank crosses.
void require_same(const comm::Communicator& group, std::span<const Sample> batch);

}  // namespace ringspan::model
