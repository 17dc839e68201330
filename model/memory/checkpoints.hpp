// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::model {

/// What checkpointing keeps of a sequence: the input of every layer, 16 bits per element (ALST,
/// arXiv 2506.13996, section 3): tokens x hidden x layers x 2 bytes, over all sequence-parallel
/// ranks; with offloading it is in the memory of the hosts. `tokens` are those that are meant: of
/// the whole sequence, of one rank, or of all ranks of a host.
double checkpoint_bytes(std::int64_t tokens, std::int64_t hidden, std::int64_t layers);

/// Queries x keys, 16 bits each: of one head's scores, or of a mask that is not implied.
double square_bytes(std::int64_t tokens);

/// In how many tiles of tokens ALST computes an MLP: ceil(tokens / hidden).
std::int64_t mlp_tiles(std::int64_t tokens, std::int64_t hidden);

}  // namespace ringspan::model
