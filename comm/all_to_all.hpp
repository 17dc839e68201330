// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// direct: one message per pair. hierarchical: inter-node first, among ranks of equal local index,
/// then inside the node; fewer, larger messages on the network. automatic: direct, because on every
/// transport of this build all ranks share an address space.
enum class AllToAllAlgorithm { direct, hierarchical, automatic };

/// A repeated exchange: slice i of `send` goes to rank i, slice i of `recv` comes from rank i.
/// Sizes may differ per pair and be zero (no message then); both sides of a pair must agree, and
/// the two slices may cut the bytes into different rows. Creating it is collective; it allocates
/// what staging it needs.
///
/// On N nodes of L ranks, with s bytes per pair, a rank sends
///   direct        N L - 1 messages, N L - L of them to other nodes, of s bytes;
///   hierarchical  N - 1 messages to other nodes, of L s bytes; and inside the node (L - 1) N
///                 messages of s bytes: its own, and what it passes on. It packs (N - 1) L s bytes
///                 first and needs as much staging again for what it passes on.
/// A node with fewer ranks than another has some of them receive for two or more.
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

/// Once: equal chunks, chunk i of `send` to rank i, chunk i of `recv` from rank i. A slice of
/// several rows is cut between rows.
void all_to_all(const Communicator& comm, const Slice& send, const Slice& recv,
                AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

/// Once: slices per rank, as AllToAll.
void all_to_all_v(const Communicator& comm, std::span<const Slice> send,
                  std::span<const Slice> recv,
                  AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct);

/// What messages cost: seconds each, and seconds per byte.
struct MessageCosts {
  double inter_node_latency = 0;
  double intra_node_latency = 0;
  double intra_node_per_byte = 0;
  double copy_per_byte = 0;  // packing, on the device
};

/// The faster algorithm for `bytes` per pair: hierarchical where the inter-node latencies saved
/// outweigh the extra work inside the node, so for small messages. For callers who have measured
/// the costs; nothing in this build has, so `automatic` does not ask.
AllToAllAlgorithm choose_all_to_all(const MessageCosts& costs, std::int64_t bytes, int nodes,
                                    int ranks_per_node);

}  // namespace ringspan::comm
