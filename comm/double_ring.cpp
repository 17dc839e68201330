// SPDX-License-Identifier: Apache-2.0
#include "comm/double_ring.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "comm/in_turn.hpp"

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

// Blocks move to the next rank, so those of the ranks before come by.
int owner(int rank, int inner_ranks, int nodes, int outer, int inner) {
  const int node = (rank / inner_ranks + nodes - outer) % nodes;
  return node * inner_ranks + (rank % inner_ranks + inner_ranks - inner) % inner_ranks;
}

/// All blocks go everywhere.
std::vector<DoubleRing::Step> whole_tour(int rank, int inner_ranks,
                                         const std::vector<std::int64_t>& bytes) {
  const int nodes = static_cast<int>(bytes.size()) / inner_ranks;
  const auto held = [&](int outer, int inner) {
    return bytes[owner(rank, inner_ranks, nodes, outer, inner)];
  };
  std::vector<DoubleRing::Step> steps;
  for (int outer = 0; outer < nodes; ++outer) {
    for (int inner = 0; inner < inner_ranks; ++inner) {
      DoubleRing::Step& step = steps.emplace_back();
      step.outer = outer;
      step.inner = inner;
      if (inner + 1 < inner_ranks) step.inner_hop = {held(outer, inner), held(outer, inner + 1)};
      if (inner == 0 && outer + 1 < nodes) step.outer_hop = {held(outer, 0), held(outer + 1, 0)};
    }
  }
  return steps;
}

// Before anything is posted: a hop is refused here or never.
void require_valid(const std::vector<DoubleRing::Step>& steps, int inner_ranks, int nodes,
                   std::int64_t capacity) {
  RINGSPAN_REQUIRE(!steps.empty(), "double_ring: no step; there must be one at least");
  const auto fits = [capacity](const DoubleRing::Bytes& hop) {
    return hop.sent >= 0 && hop.sent <= capacity && hop.received >= 0 && hop.received <= capacity;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DoubleRing::Step& step = steps[i];
    const bool goes_on = i > 0 && step.outer == steps[i - 1].outer;
    const int turn = i == 0 ? 0 : steps[i - 1].outer + (goes_on ? 0 : 1);
    const int place = goes_on ? steps[i - 1].inner + 1 : 0;
    RINGSPAN_REQUIRE(
        step.outer == turn && turn < nodes && step.inner == place && place < inner_ranks,
        "double_ring: step ", i, " is at (", step.outer, ", ", step.inner,
        "); steps go through rings of ", nodes, " and ", inner_ranks, " ranks, inner turns first");
    RINGSPAN_REQUIRE(fits(step.inner_hop) && fits(step.outer_hop), "double_ring: step ", i,
                     " sends ", step.inner_hop.sent, " and ", step.outer_hop.sent,
                     " bytes and receives ", step.inner_hop.received, " and ",
                     step.outer_hop.received, "; each must lie between 0 and the capacity of ",
                     capacity);
  }
}

}  // namespace

DoubleRing::DoubleRing(const Communicator& comm, int inner_ranks, std::vector<std::int64_t> bytes)
    : DoubleRing{inner_ring(comm, inner_ranks, bytes),  // braces: first, since it also checks
                 comm.split(comm.rank() % inner_ranks, comm.rank()),
                 *std::max_element(bytes.begin(), bytes.end()),
                 whole_tour(comm.rank(), inner_ranks, bytes)} {}

// A ring of one rank holds nothing: the block is in the other one.
DoubleRing::DoubleRing(Communicator inner, std::optional<Communicator> outer, std::int64_t capacity,
                       std::vector<Step> steps)
    : inner_comm_(std::move(inner)),
      outer_comm_(std::move(outer)),
      inner_(inner_comm_,
             inner_comm_.size() > 1 || !outer_comm_ || outer_comm_->size() == 1 ? capacity : 0),
      steps_(std::move(steps)) {
  require_valid(steps_, inner_comm_.size(), outer_comm_ ? outer_comm_->size() : 1, capacity);
  if (outer_comm_ && outer_comm_->size() > 1) outer_.emplace(*outer_comm_, capacity);
}

bool DoubleRing::last_inner_step() const {
  const std::size_t next = step_ + 1;
  return next == steps_.size() || steps_[next].outer != step().outer;
}

int DoubleRing::owner() const {
  const int inner_ranks = inner_comm_.size(), nodes = outer_comm_ ? outer_comm_->size() : 1;
  const int node = outer_comm_ ? outer_comm_->rank() : 0;
  return comm::owner(node * inner_ranks + inner_comm_.rank(), inner_ranks, nodes, step().outer,
                     step().inner);
}

const Buffer& DoubleRing::block() const {
  return outer_ && step().inner == 0 ? outer_->block() : inner_.block();
}

const Buffer& DoubleRing::begin() {
  require_in_turn(inner_comm_, !hopping_ && step_ % steps_.size() == 0,
                  "double_ring: begin() at step ", step_, " of ", steps_.size(),
                  "; a turn goes to its end");
  step_ = 0;
  const Buffer& own = inner_.begin();  // gives up its block: the owner may wait for it below
  return outer_ ? outer_->begin() : own;
}

void DoubleRing::start() {
  require_in_turn(inner_comm_, !hopping_, "double_ring: start() before the last step was finished");
  require_in_turn(inner_comm_, step_ < steps_.size(), "double_ring: start() after the last of ",
                  steps_.size(), " steps");
  const Step& now = step();
  if (outer_ && now.inner == 0) {
    if (!last_outer_step()) outer_->start(now.outer_hop.sent, now.outer_hop.received);
    if (inner_comm_.size() > 1) inner_.begin(outer_->block());
  }
  if (!last_inner_step()) inner_.start(now.inner_hop.sent, now.inner_hop.received);
  hopping_ = true;
}

void DoubleRing::finish() {
  require_in_turn(inner_comm_, hopping_, "double_ring: finish() without start()");
  hopping_ = false;  // even if a wait fails: later calls then report that failure
  if (!last_inner_step()) {
    inner_.finish();
  } else if (outer_ && !last_outer_step()) {
    outer_->finish();
  }
  ++step_;
}

}  // namespace ringspan::comm
