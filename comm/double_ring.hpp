// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/ring_exchange.hpp"

namespace ringspan::comm {

/// Takes every rank's block past every other rank on two levels (LoongTrain, arXiv:2406.18485).
/// Each `inner_ranks` consecutive ranks, meant to share a node, form an inner ring; ranks of equal
/// place in them form an outer one. While the blocks of one node go around the inner ring, those of
/// the next arrive over the outer: a whole inner turn hides one message between nodes, and all
/// ranks of a node use its links to the others at once. Each rank sends size() - 1 messages, as in
/// one ring, size() / inner_ranks - 1 of them outwards.
///   own block: begin(), write it; then size() times: start(), use block() of owner(), finish().
class DoubleRing {
 public:
  /// `bytes`: of every rank's block; zero is no message. Collective; allocates the buffers: four of
  /// the largest block where hops copy, two where they lend.
  DoubleRing(const Communicator& comm, int inner_ranks, std::vector<std::int64_t> bytes);

  /// This rank's own block, to be written, as the one held. Waits until no peer still reads it.
  const Buffer& begin();

  /// The block held now, and whose it is; read-only from the first start() until the next begin().
  const Buffer& block() const { return inner_step() == 0 ? outer_.block() : inner_.block(); }
  int owner() const { return owner(step_); }

  /// Begins the hops that are due at this step, if any; the held block may be read until finish().
  void start();
  void finish();

 private:
  int inner_step() const { return step_ % inner_comm_.size(); }
  bool last_inner_step() const { return inner_step() + 1 == inner_comm_.size(); }
  bool last_outer_step() const { return step_ + inner_comm_.size() >= size(); }
  int size() const { return inner_comm_.size() * outer_comm_.size(); }
  int owner(int step) const;

  Communicator inner_comm_, outer_comm_;
  std::vector<std::int64_t> bytes_;  // [rank]
  RingExchange inner_, outer_;
  int step_ = 0;
  bool hopping_ = false;
};

}  // namespace ringspan::comm
