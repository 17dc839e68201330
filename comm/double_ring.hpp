// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/ring_exchange.hpp"

namespace ringspan::comm {

/// Takes every rank's block past every other rank on two levels (LoongTrain, arXiv:2406.18485).
/// Each `inner_ranks` consecutive ranks, meant to share a node, form an inner ring; ranks of equal
/// place in them form an outer one. While the blocks of one node go around the inner ring, those of
/// the next arrive over the outer: a whole inner turn hides one message between nodes, and all
/// ranks of a node use its links to the others at once. Each rank sends size() - 1 messages, as in
/// one ring, size() / inner_ranks - 1 of them outwards.
///   own block: begin(), write it; then per step: start(), use block() of owner(), finish().
class DoubleRing {
 public:
  /// Of one hop; zero is no message. The neighbours agree.
  struct Bytes {
    std::int64_t sent = 0, received = 0;
  };

  /// What one rank does while it holds the block of the rank `inner` places before it in the inner
  /// ring, of the node `outer` places before its own. Steps go through an inner turn, in which
  /// inner counts from 0, before outer grows; all ranks have equal steps but for the bytes. The
  /// outer hop of a turn begins with its first step, where it is told, and ends with its last.
  struct Step {
    int outer = 0, inner = 0;
    Bytes inner_hop = {}, outer_hop = {};
  };

  /// Every block, of so many `bytes` [rank], to every rank: size() steps. Collective; allocates the
  /// buffers: four of the largest block where hops copy, two where they lend; half as many if one
  /// of the rings has one rank.
  DoubleRing(const Communicator& comm, int inner_ranks, std::vector<std::int64_t> bytes);

  /// Blocks of at most `capacity` bytes, which move only as far as the steps say. Without an outer
  /// ring it is one ring. Local; allocates the buffers.
  DoubleRing(Communicator inner, std::optional<Communicator> outer, std::int64_t capacity,
             std::vector<Step> steps);

  /// This rank's own block, to be written, as the one held. Waits until no peer still reads it.
  const Buffer& begin();

  /// The block held now, and whose it is; read-only from the first start() until the next begin().
  const Buffer& block() const;
  int owner() const;

  /// Begins the hops that are due at this step, if any; the held block may be read until finish().
  void start();
  void finish();

 private:
  const Step& step() const { return steps_[step_ % steps_.size()]; }
  bool last_inner_step() const;
  bool last_outer_step() const { return step().outer == steps_.back().outer; }

  Communicator inner_comm_;
  std::optional<Communicator> outer_comm_;
  RingExchange inner_;
  std::optional<RingExchange> outer_;
  std::vector<Step> steps_;
  std::size_t step_ = 0;
  bool hopping_ = false;
};

}  // namespace ringspan::comm
