// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// direct: one message per pair. hierarchical: inter-node first, among ranks of equal local index,
/// then inside the node; fewer, larger messages on the network. automatic: the faster of the two by
/// probed latency and bandwidth; on one node, or where all ranks share an address space, direct.
enum class AllToAllAlgorithm { direct, hierarchical, automatic };

/// A repeated exchange: slice i of `send` goes to rank i, slice i of `recv` comes from rank i.
/// Sizes may differ per pair and be zero (no message then); both sides of a pair must agree, and
/// the two slices may cut the bytes into different rows. Creating it is collective; it allocates
/// what staging it needs.
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

  /// direct or hierarchical: what automatic chose.
  AllToAllAlgorithm algorithm() const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

/// Once: equal chunks, chunk i of `send` to rank i, chunk i of `recv` from rank i.
void all_to_all(const Communicator& comm, const Slice& send, const Slice& recv,
                AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

/// Once: slices per rank, as AllToAll.
void all_to_all_v(const Communicator& comm, std::span<const Slice> send,
                  std::span<const Slice> recv,
                  AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

}  // namespace ringspan::comm
