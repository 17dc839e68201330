// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/all_to_all_choice.hpp"
#include "comm/communicator.hpp"

namespace ringspan::comm {

/// A repeated exchange: slice i of `send` goes to rank i, slice i of `recv` comes from rank i.
/// Sizes may differ per pair and be zero (no message then); both sides of a pair must agree, and
/// the two slices may cut the bytes into different rows. Creating it is collective; it allocates
/// what staging it needs.
///
/// On N nodes of L ranks, with s bytes per pair, a rank sends
///   direct        N L - 1 messages, N L - L of them to other nodes, of s bytes;
///   hierarchical  N - 1 messages to other nodes, of L s bytes; and inside the node, in K stages,
///                 (L - 1) (K + 1) messages with N (L - 1) s bytes: its own, and what it passes on.
/// What it has for one node it packs first, unless that lies in one piece; it needs as much staging
/// again for what it passes on, and more for stages that bring several nodes. Stages may be joined,
/// which changes nothing of this. Of nodes of unequal
/// size, ranks of the smaller receive for two or more of the larger.
class AllToAll {
 public:
  AllToAll(Communicator comm, std::vector<Slice> send, std::vector<Slice> recv,
           AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);
  AllToAll(AllToAll&&) noexcept;
  AllToAll& operator=(AllToAll&&) noexcept;
  ~AllToAll();

  /// Begins the exchange; the sent slices may be read, the received ones not touched, until
  /// finish().
  void start();
  void finish();

  /// What was chosen, and why.
  const AllToAllChoice& choice() const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

/// Once: equal chunks, chunk i of `send` to rank i, chunk i of `recv` from rank i. A slice of
/// several rows is cut between rows.
void all_to_all(const Communicator& comm, const Slice& send, const Slice& recv,
                AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

/// Once: slices per rank, as AllToAll.
void all_to_all_v(const Communicator& comm, std::span<const Slice> send,
                  std::span<const Slice> recv,
                  AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

}  // namespace ringspan::comm
