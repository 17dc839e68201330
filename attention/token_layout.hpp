// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ringspan::attention {

/// What is cut across the ranks: `length` tokens, the same for every batch entry. With `documents`,
/// the sequence is packed: document lengths in order, empty ones allowed, and tokens behind their
/// sum are padding. Without, it is one document and nothing is padding.
struct Sequence {
  std::int64_t length = 0;
  std::vector<std::int64_t> documents = {};
};

/// Throws invalid_argument for negative lengths or documents that do not fit.
void require_valid(const Sequence& sequence);

/// `count` global token positions: first, first + stride, first + 2 * stride, ...
struct Run {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

/// The tokens that one rank holds, in the order in which it stores them.
using Shard = std::vector<Run>;

/// Which tokens each rank holds; the only source of it. Positions, labels and masks derive from
/// shards.
///   contiguous  near-equal consecutive pieces, in rank order; documents do not matter
///   striped     every ranks-th token; documents do not matter, and each is balanced
///   zigzag      2 * ranks near-equal pieces, rank r holds pieces r and 2 * ranks - 1 - r. Of a
///               packed sequence every document (and the padding) is cut so, and what does not
///               divide is dealt out so that no document needs padding and ranks differ by at most
///               one token.
enum class LayoutKind { contiguous, striped, zigzag };

std::string_view name(LayoutKind kind);
LayoutKind layout_kind(std::string_view name);  // throws invalid_argument, listing the known names

Shard shard(LayoutKind kind, const Sequence& sequence, int ranks, int rank);

/// [rank]: those of all ranks, which takes hardly more work than one of them.
std::vector<Shard> shards(LayoutKind kind, const Sequence& sequence, int ranks);

std::int64_t tokens(const Shard& shard);

/// Adds a run behind the others, as part of the last one where it continues it. Empty ones vanish.
void append(Shard& shard, const Run& run);

/// Piece `index` of `pieces` near-equal pieces of a shard, in storage order.
Shard piece(const Shard& shard, int pieces, int index);

/// Global position of every token, in storage order. int64 and exact at any length.
std::vector<std::int64_t> positions(const Shard& shard);

/// For every token in storage order: its document (-1 for padding), and its position in that
/// document, which is what rotary embeddings want.
struct DocumentPosition {
  std::int64_t document = 0;
  std::int64_t position = 0;
};
std::vector<DocumentPosition> document_positions(const Shard& shard, const Sequence& sequence);

}  // namespace ringspan::attention
