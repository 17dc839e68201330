// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "comm/batch.hpp"
#include "comm/collectives.hpp"

namespace ringspan::comm {
namespace {

void require_reducible(const Slice& part, std::int64_t element_bytes) {
  require_inside(part);
  RINGSPAN_REQUIRE(part.contiguous(), "reduce_scatter: rows of ", part.row_bytes, " bytes, ",
                   part.stride, " apart; a part must be one run of bytes");
  RINGSPAN_REQUIRE(part.bytes() % element_bytes == 0 && part.offset % element_bytes == 0,
                   "reduce_scatter: ", part.bytes(), " bytes from offset ", part.offset,
                   "; both must be multiples of the element's ", element_bytes, " bytes");
}

}  // namespace

void reduce_scatter(const Communicator& comm, std::span<const Slice> parts, Element element,
                    Reduction reduction, Buffer staging) {
  const int rank = comm.rank(), size = comm.size();
  RINGSPAN_REQUIRE(element != Element::reproducible || reduction == Reduction::sum,
                   "reduce_scatter: reproducible sums have no order; they can only be summed");
  RINGSPAN_REQUIRE(std::ssize(parts) == size, "reduce_scatter: ", parts.size(), " parts for ", size,
                   " ranks; there must be one per rank");
  std::int64_t largest = 0;
  for (const Slice& part : parts) {
    require_reducible(part, element_bytes(element));
    largest = std::max(largest, part.bytes());
  }
  if (size == 1) return;
  if (!staging) staging = comm.device().allocate(largest);
  RINGSPAN_REQUIRE(staging.bytes() >= largest, "reduce_scatter: a staging buffer of ",
                   staging.bytes(), " bytes for a largest part of ", largest);

  // Part i sets out from rank i + 1 and gains a share at every rank on its way round to rank i.
  for (int hop = 0; hop + 1 < size; ++hop) {
    const Slice& sent = parts[(rank + 2 * size - 1 - hop) % size];
    const Slice& kept = parts[(rank + 2 * size - 2 - hop) % size];
    const Slice share = slice(staging, 0, kept.bytes());
    post_pair(comm, "reduce_scatter", comm.next(), sent, comm.prev(), share).wait();
    comm.device().reduce(kept, share, element, reduction);
  }
}

}  // namespace ringspan::comm
