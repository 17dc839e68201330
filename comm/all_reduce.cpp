// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::comm {
namespace {

/// In rank order on every rank, so that all get the same bits.
template <typename Value>
Value reduce_values(const Communicator& comm, Value value, Reduction reduction) {
  const std::vector<Value> values = all_gather_values(comm, value);
  Value result = values[0];
  for (int rank = 1; rank < comm.size(); ++rank) {
    switch (reduction) {
      case Reduction::sum: result += values[rank]; break;
      case Reduction::min: result = std::min(result, values[rank]); break;
      case Reduction::max: result = std::max(result, values[rank]); break;
    }
  }
  return result;
}

}  // namespace

void all_reduce(const Communicator& comm, const Slice& data, Element element, Reduction reduction,
                Buffer staging) {
  const std::int64_t width = element_bytes(element);
  require_inside(data);
  RINGSPAN_REQUIRE(data.contiguous() && data.bytes() % width == 0, "all_reduce: ", data.rows,
                   " rows of ", data.row_bytes, " bytes, ", data.stride,
                   " apart; must be one run of elements of ", width, " bytes");
  std::vector<Slice> parts(comm.size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Part part = split_evenly(data.bytes() / width, comm.size(), rank);
    parts[rank] = slice(data.buffer, data.offset + part.first * width, part.count * width);
  }
  reduce_scatter(comm, parts, element, reduction, std::move(staging));
  all_gather(comm, parts);
}

double all_reduce(const Communicator& comm, double value, Reduction reduction) {
  return reduce_values(comm, value, reduction);
}

std::int64_t all_reduce(const Communicator& comm, std::int64_t value, Reduction reduction) {
  return reduce_values(comm, value, reduction);
}

}  // namespace ringspan::comm
