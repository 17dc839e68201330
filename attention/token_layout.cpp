// SPDX-License-Identifier: Apache-2.0
#include "attention/token_layout.hpp"

#include <algorithm>
#include <numeric>

#include "attention/segments.hpp"
#include "comm/error.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::attention {
namespace {

Shard contiguous_shard(const Sequence& sequence, int ranks, int rank) {
  const Part part = split_evenly(sequence.length, ranks, rank);
  Shard shard;
  append(shard, {part.first, 1, part.count});
  return shard;
}

Shard striped_shard(const Sequence& sequence, int ranks, int rank) {
  Shard shard;
  append(shard, {rank, ranks, split_evenly(sequence.length, ranks, rank).count});
  return shard;
}

/// Piece `slot` of `length` tokens cut into `slots` near-equal pieces, where the pieces that are
/// one token larger start at `first_larger` and go round.
Part rotated_piece(std::int64_t length, std::int64_t slots, std::int64_t first_larger,
                   std::int64_t slot) {
  const std::int64_t base = length / slots, larger = length % slots;
  const std::int64_t wrapped = std::max<std::int64_t>(first_larger + larger - slots, 0);
  const auto larger_before = [&](std::int64_t k) {
    return std::min(k, wrapped) + std::clamp<std::int64_t>(k - first_larger, 0, larger - wrapped);
  };
  const std::int64_t before = larger_before(slot);
  return {slot * base + before, base + larger_before(slot + 1) - before};
}

/// For every document, the first slot that gets one of its remaining tokens. They are dealt one
/// slot after the other, going round, which visits the ranks 0 .. P-1, P-1 .. 0: ranks then differ
/// by at most one token. Longer documents go first, so that tokens dealt in one round cost about
/// the same: causal work then differs by about one row of the longest document, however many
/// documents there are. The last one is the padding; it costs nothing and is dealt last.
std::vector<std::int64_t> deal(const std::vector<std::int64_t>& lengths, std::int64_t slots) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), std::prev(order.end()),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::int64_t> first_larger(lengths.size());
  std::int64_t slot = 0;
  for (const std::size_t document : order) {
    first_larger[document] = slot;
    slot = (slot + lengths[document] % slots) % slots;
  }
  return first_larger;
}

Shard zigzag_shard(const Sequence& sequence, int ranks, int rank) {
  std::vector<std::int64_t> lengths = sequence.documents;
  lengths.push_back(sequence.length -
                    std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const std::int64_t slots = 2 * static_cast<std::int64_t>(ranks);
  const std::vector<std::int64_t> first_larger = deal(lengths, slots);

  Shard shard;
  std::int64_t start = 0;
  for (std::size_t document = 0; document < lengths.size(); ++document) {
    for (const std::int64_t slot : {std::int64_t{rank}, slots - 1 - rank}) {
      const Part part = rotated_piece(lengths[document], slots, first_larger[document], slot);
      append(shard, {start + part.first, 1, part.count});
    }
    start += lengths[document];
  }
  return shard;
}

}  // namespace

void require_valid(const Sequence& sequence) {
  RINGSPAN_REQUIRE(sequence.length >= 0, "sequence length is ", sequence.length,
                   "; a length is 0 or more");
  std::int64_t left = sequence.length;
  for (std::size_t i = 0; i < sequence.documents.size(); ++i) {
    const std::int64_t length = sequence.documents[i];
    RINGSPAN_REQUIRE(length >= 0, "document ", i, " has length ", length,
                     "; a length is 0 or more");
    RINGSPAN_REQUIRE(length <= left, "document ", i, " has ", length, " tokens but only ", left,
                     " of the sequence's ", sequence.length, " are left for it");
    left -= length;
  }
}

std::string_view name(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::contiguous: return "contiguous";
    case LayoutKind::striped: return "striped";
    case LayoutKind::zigzag: return "zigzag";
  }
  return "unknown";
}

LayoutKind layout_kind(std::string_view text) {
  for (const LayoutKind known : {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
    if (name(known) == text) return known;
  }
  RINGSPAN_REQUIRE(false, "unknown layout '", text, "'; known are contiguous, striped, zigzag");
  return LayoutKind::contiguous;
}

Shard shard(LayoutKind kind, const Sequence& sequence, int ranks, int rank) {
  require_valid(sequence);
  RINGSPAN_REQUIRE(ranks >= 1 && rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks,
                   "; ranks are numbered from 0, and there is at least one");
  switch (kind) {
    case LayoutKind::contiguous: return contiguous_shard(sequence, ranks, rank);
    case LayoutKind::striped: return striped_shard(sequence, ranks, rank);
    case LayoutKind::zigzag: return zigzag_shard(sequence, ranks, rank);
  }
  return {};
}

void append(Shard& shard, const Run& run) {
  if (run.count == 0) return;
  if (!shard.empty()) {
    Run& last = shard.back();
    if (last.stride == run.stride && last.first + last.stride * last.count == run.first) {
      last.count += run.count;
      return;
    }
  }
  shard.push_back(run);
}

std::int64_t tokens(const Shard& shard) {
  std::int64_t total = 0;
  for (const Run& run : shard) total += run.count;
  return total;
}

Shard piece(const Shard& shard, int pieces, int index) {
  RINGSPAN_REQUIRE(pieces >= 1 && index >= 0 && index < pieces, "piece ", index, " of ", pieces,
                   "; pieces are numbered from 0, and there is at least one");
  const Part part = split_evenly(tokens(shard), pieces, index);
  Shard cut;
  std::int64_t row = 0;  // of the run's first token
  for (const Run& run : shard) {
    const std::int64_t begin = std::clamp<std::int64_t>(part.first - row, 0, run.count);
    const std::int64_t end = std::clamp<std::int64_t>(part.first + part.count - row, 0, run.count);
    append(cut, {run.first + run.stride * begin, run.stride, end - begin});
    row += run.count;
  }
  return cut;
}

std::vector<std::int64_t> positions(const Shard& shard) {
  std::vector<std::int64_t> all;
  all.reserve(tokens(shard));
  for (const Run& run : shard) {
    for (std::int64_t i = 0; i < run.count; ++i) all.push_back(run.first + run.stride * i);
  }
  return all;
}

std::vector<DocumentPosition> document_positions(const Shard& shard, const Sequence& sequence) {
  std::vector<DocumentPosition> all;
  all.reserve(tokens(shard));
  for (const Segment& segment : segments(shard, sequence)) {
    const Run& run = segment.tokens;
    for (std::int64_t i = 0; i < run.count; ++i) {
      all.push_back({segment.document, run.first + run.stride * i - segment.document_first});
    }
  }
  return all;
}

}  // namespace ringspan::attention
