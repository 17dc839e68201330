// SPDX-License-Identifier: Apache-2.0
#include "attention/segments.hpp"

#include <algorithm>
#include <numeric>

namespace ringspan::attention {
namespace {

/// Where every document ends; without documents, the one that the sequence is.
std::vector<std::int64_t> document_ends(const Sequence& sequence) {
  if (sequence.documents.empty()) return {sequence.length};
  std::vector<std::int64_t> ends(sequence.documents.size());
  std::partial_sum(sequence.documents.begin(), sequence.documents.end(), ends.begin());
  return ends;
}

}  // namespace

std::vector<Segment> segments(const Shard& shard, const Sequence& sequence) {
  const std::vector<std::int64_t> ends = document_ends(sequence);
  Shard joined;
  for (const Run& run : shard) append(joined, run);

  std::vector<Segment> cut;
  std::int64_t row = 0;
  for (const Run& run : joined) {
    for (std::int64_t done = 0; done < run.count;) {
      const std::int64_t position = run.first + run.stride * done;
      const auto end = std::upper_bound(ends.begin(), ends.end(), position);
      const bool padding = end == ends.end();
      const std::int64_t first = end == ends.begin() ? 0 : *std::prev(end);
      const std::int64_t last = padding ? sequence.length : *end;
      const std::int64_t inside = (last - position - 1) / run.stride + 1;
      const std::int64_t count = std::min(run.count - done, padding ? run.count : inside);
      cut.push_back({.row = row,
                     .tokens = {position, run.stride, count},
                     .document = padding ? -1 : end - ends.begin(),
                     .document_first = first,
                     .document_length = last - first});
      row += count;
      done += count;
    }
  }
  return cut;
}

Sequence without_boundaries(const Sequence& sequence) {
  if (sequence.documents.empty()) return sequence;
  return {sequence.length, {document_ends(sequence).back()}};
}

}  // namespace ringspan::attention
