// SPDX-License-Identifier: Apache-2.0
#include "comm/double_ring.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringspan::comm {
namespace {

Communicator inner_ring(const Communicator& comm, int inner_ranks,
                        const std::vector<std::int64_t>& bytes) {
  RINGSPAN_REQUIRE(inner_ranks >= 1 && comm.size() % inner_ranks == 0,
                   "double_ring: inner rings of ", inner_ranks, " ranks do not divide ",
                   comm.size(), " ranks evenly");
  RINGSPAN_REQUIRE(std::ssize(bytes) == comm.size(), "double_ring: ", bytes.size(),
                   " sizes of blocks for ", comm.size(), " ranks; there must be one per rank");
  RINGSPAN_REQUIRE(*std::min_element(bytes.begin(), bytes.end()) >= 0,
                   "double_ring: the size of a block is negative");
  return comm.split(comm.rank() / inner_ranks, comm.rank());
}

}  // namespace

DoubleRing::DoubleRing(const Communicator& comm, int inner_ranks, std::vector<std::int64_t> bytes)
    : inner_comm_(inner_ring(comm, inner_ranks, bytes)),
      outer_comm_(comm.split(comm.rank() % inner_ranks, comm.rank())),
      bytes_(std::move(bytes)),
      inner_(inner_comm_, *std::max_element(bytes_.begin(), bytes_.end())),
      outer_(outer_comm_, inner_.capacity()) {}

// Blocks move to the next rank, so those of the ranks before come by.
int DoubleRing::owner(int step) const {
  const int nodes = outer_comm_.size(), inner_ranks = inner_comm_.size();
  const int node = (outer_comm_.rank() + nodes - step / inner_ranks % nodes) % nodes;
  const int local = (inner_comm_.rank() + inner_ranks - step % inner_ranks) % inner_ranks;
  return node * inner_ranks + local;
}

const Buffer& DoubleRing::begin() {
  RINGSPAN_REQUIRE(!hopping_ && step_ % size() == 0, "double_ring: begin() at step ", step_, " of ",
                   size(), "; a turn goes to its end");
  step_ = 0;
  inner_.begin();  // gives up its block: the owner may be waiting for it below
  return outer_.begin();
}

void DoubleRing::start() {
  RINGSPAN_REQUIRE(!hopping_, "double_ring: start() before the last step was finished");
  RINGSPAN_REQUIRE(step_ < size(), "double_ring: start() after the last of ", size(), " steps");
  if (inner_step() == 0) {
    if (!last_outer_step()) {
      outer_.start(bytes_[owner()], bytes_[owner(step_ + inner_comm_.size())]);
    }
    inner_.begin(outer_.block());
  }
  if (!last_inner_step()) inner_.start(bytes_[owner()], bytes_[owner(step_ + 1)]);
  hopping_ = true;
}

void DoubleRing::finish() {
  RINGSPAN_REQUIRE(hopping_, "double_ring: finish() without start()");
  hopping_ = false;  // even if a wait fails: later calls then report that failure
  if (!last_inner_step()) {
    inner_.finish();
  } else if (!last_outer_step()) {
    outer_.finish();
  }
  ++step_;
}

}  // namespace ringspan::comm
