// SPDX-License-Identifier: Apache-2.0
#include "attention/token_layout.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

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

/// How zigzag cuts one document of a pack into `slots` near-equal pieces: those that are one token
/// larger start at slot `first_larger` and go round; `mirrored`, they are counted from the end.
struct Cut {
  std::int64_t length = 0;
  std::int64_t slots = 1;
  std::int64_t first_larger = 0;
  bool mirrored = false;

  Part piece(std::int64_t slot) const {
    if (!mirrored) return unmirrored_piece(slot);
    const Part other = unmirrored_piece(slots - 1 - slot);
    return {length - other.first - other.count, other.count};
  }

 private:
  Part unmirrored_piece(std::int64_t slot) const {
    const std::int64_t before = larger_before(slot);
    return {slot * (length / slots) + before, length / slots + larger_before(slot + 1) - before};
  }
  std::int64_t larger_before(std::int64_t slot) const {
    const std::int64_t larger = length % slots;
    const std::int64_t wrapped = std::max<std::int64_t>(first_larger + larger - slots, 0);
    return std::min(slot, wrapped) +
           std::clamp<std::int64_t>(slot - first_larger, 0, larger - wrapped);
  }
};

/// How much later than the middle of the document a rank's tokens lie: the sum of 2p + 1 - length
/// over their positions p. Causal work is half of (length + 1) * tokens + lean.
double lean(const Cut& cut, std::int64_t rank) {
  __extension__ using Wide = __int128;  // the two pieces nearly cancel
  Wide sum = 0;
  for (const std::int64_t slot : {rank, cut.slots - 1 - rank}) {
    const Part part = cut.piece(slot);
    sum += Wide{part.count} * (Wide{2} * part.first + part.count - cut.length);
  }
  return static_cast<double>(sum);
}

/// Adds how the ranks lean in this cut to `leans`, their sums so far, after mirroring the cut if
/// that leaves the smaller squares. A rank has as many tokens either way.
void choose_side(Cut& cut, std::vector<double>& leans) {
  double product = 0;
  for (std::size_t rank = 0; rank < leans.size(); ++rank) {
    product += leans[rank] * lean(cut, static_cast<std::int64_t>(rank));
  }
  cut.mirrored = product > 0;
  for (std::size_t rank = 0; rank < leans.size(); ++rank) {
    leans[rank] += lean(cut, static_cast<std::int64_t>(rank));
  }
}

/// Cuts the documents and, last, the padding. What does not divide is dealt out one slot after the
/// other, going round, which visits the ranks 0 .. P-1, P-1 .. 0: they differ by at most one token.
/// Longer documents go first, so that tokens dealt in one round cost about the same, and each is
/// mirrored if that evens out what came before. Causal work of ranks then differs by a few rows of
/// the longest document (three, say the tests), however many documents there are.
std::vector<Cut> cut_documents(const Sequence& sequence, int ranks) {
  std::vector<Cut> cuts;
  std::int64_t padding = sequence.length;
  for (const std::int64_t length : sequence.documents) {
    cuts.push_back({length, 2 * ranks});
    padding -= length;
  }
  cuts.push_back({padding, 2 * ranks});

  std::vector<std::size_t> order(cuts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), std::prev(order.end()),
                   [&](std::size_t a, std::size_t b) { return cuts[a].length > cuts[b].length; });
  std::vector<double> leans(ranks);
  std::int64_t next = 0;
  for (const std::size_t document : order) {
    Cut& cut = cuts[document];
    cut.first_larger = next;
    const std::int64_t larger = cut.length % cut.slots;
    next = (next + larger) % cut.slots;
    const bool padding_cut = document == order.back();
    if (larger > 0 && !padding_cut) choose_side(cut, leans);  // equal pieces do not lean
  }
  return cuts;
}

Shard zigzag_shard(const std::vector<Cut>& documents, int rank) {
  Shard shard;
  std::int64_t start = 0;
  for (const Cut& cut : documents) {
    for (const std::int64_t slot : {std::int64_t{rank}, cut.slots - 1 - rank}) {
      const Part part = cut.piece(slot);
      append(shard, {start + part.first, 1, part.count});
    }
    start += cut.length;
  }
  return shard;
}

/// The shards of ranks first .. end - 1.
std::vector<Shard> shards(LayoutKind kind, const Sequence& sequence, int ranks, int first,
                          int end) {
  require_valid(sequence);
  std::vector<Cut> documents;
  if (kind == LayoutKind::zigzag) documents = cut_documents(sequence, ranks);
  std::vector<Shard> shards;
  for (int rank = first; rank < end; ++rank) {
    switch (kind) {
      case LayoutKind::contiguous: shards.push_back(contiguous_shard(sequence, ranks, rank)); break;
      case LayoutKind::striped: shards.push_back(striped_shard(sequence, ranks, rank)); break;
      case LayoutKind::zigzag: shards.push_back(zigzag_shard(documents, rank)); break;
    }
  }
  return shards;
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
  RINGSPAN_REQUIRE(ranks >= 1 && rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks,
                   "; ranks are numbered from 0, and there is at least one");
  return std::move(shards(kind, sequence, ranks, rank, rank + 1).front());
}

std::vector<Shard> shards(LayoutKind kind, const Sequence& sequence, int ranks) {
  RINGSPAN_REQUIRE(ranks >= 1, ranks, " ranks; there is at least one");
  return shards(kind, sequence, ranks, 0, ranks);
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
