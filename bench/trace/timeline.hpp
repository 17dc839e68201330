// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/trace.hpp"

namespace ringspan::bench {

/// A TraceSpan that is kept.
struct Span {
  comm::TraceSpan::Kind kind = comm::TraceSpan::Kind::kernel;
  int rank = 0;
  std::string name;
  double start = 0, end = 0;  // seconds
  int peer = -1;
  std::int64_t bytes = 0;
};

/// What the ranks of one point did in one pass. The first of them begins it at 0.
struct Timeline {
  std::vector<comm::Place> places;  // [rank]
  std::vector<Span> spans;          // of each rank, in the order in which they ended
  double seconds = 0;               // until the last rank had done all
};

}  // namespace ringspan::bench
