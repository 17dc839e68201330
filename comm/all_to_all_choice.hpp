// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/message_costs.hpp"

namespace ringspan::comm {

/// direct: one message per pair. hierarchical: inter-node first, among ranks of equal local index,
/// then inside the node; fewer, larger messages on the network. automatic: the faster of the two,
/// by what the communicator knows about the costs of messages (Communicator::knowing); direct where
/// it knows nothing.
enum class AllToAllAlgorithm { direct, hierarchical, automatic };

/// How an all-to-all goes.
struct AllToAllChoice {
  AllToAllAlgorithm algorithm = AllToAllAlgorithm::direct;  // never automatic
  /// Of hierarchical: how many parts the other nodes are taken in. What has come from one part is
  /// passed on while the next is on the network; more stages hide more and send more messages.
  int stages = 0;
  /// Of stages of one node each: all are posted at once, and passed on at once when all have come.
  /// They hide nothing then, but a host posts no more often than for one, and packs nothing.
  bool joined = false;
  std::string reason = {};  // such as "... hierarchical pays below 4096 bytes per pair"
};

/// Seconds of an all-to-all among `nodes` nodes of `ranks_per_node` ranks, `bytes` per pair, as the
/// model beside it says. Hierarchical with so many stages, joined or not; direct with none.
double all_to_all_seconds(const MessageCosts& costs, double bytes, int nodes, int ranks_per_node,
                          int stages, bool joined = false);

/// Bytes per pair, from one to below the other.
struct BytesRange {
  double from = 0, below = std::numeric_limits<double>::infinity();
};

/// Where hierarchical is the faster, in rising order. One range from 0 on at most, unless long
/// messages cost more than short ones.
std::vector<BytesRange> hierarchical_ranges(const MessageCosts& costs, int nodes,
                                            int ranks_per_node);

/// Such as "below 4096 and from 65536 to 100000 bytes per pair"; "at no size"; "at every size".
std::string text(std::span<const BytesRange> ranges);

/// What `asked` comes to for so many bytes per pair. Nodes of unequal size count as the largest.
AllToAllChoice choose_all_to_all(AllToAllAlgorithm asked, const std::optional<MessageCosts>& costs,
                                 std::int64_t bytes, int nodes, int ranks_per_node);

}  // namespace ringspan::comm
