// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <span>

namespace ringspan::comm {

/// What messages of one kind cost a rank while all ranks send such: n of them, of b bytes together
/// and posted at once, have arrived after latency + n per_message + b per_byte seconds; or, see
/// MessageCosts::overlap, after latency + max(n per_message, b per_byte).
struct LinkCosts {
  double latency = 0;
  double per_message = 0;
  double per_byte = 0;
  /// What each message from kMedium or kLong bytes on costs beyond per_message: transports agree
  /// with the receiver before they send a long one, and that waits for other messages' bytes.
  double per_medium_message = 0, per_long_message = 0;
  static constexpr double kMedium = 1 << 13, kLong = 1 << 16;
  double long_from = kLong;  // bytes, where it is another
  double long_latency = 0;   // beyond latency, of a long one

  /// Of one message among others, without its bytes.
  double message(double bytes) const {
    if (bytes >= long_from) return per_message + per_long_message;
    return per_message + (bytes < kMedium ? 0 : per_medium_message);
  }
  double latency_of(double bytes) const { return latency + (bytes < long_from ? 0 : long_latency); }
};

/// Seconds of both all-to-alls, measured in turns.
struct AllToAllTrial {
  double bytes = 0;  // per pair
  double direct = 0, hierarchical = 0;
};

/// Trials among so many nodes of so many ranks, in rising order of bytes.
struct AllToAllTrials {
  static constexpr int kMost = 8;
  int nodes = 0, ranks_per_node = 0, count = 0;
  std::array<AllToAllTrial, kMost> list = {};

  std::span<const AllToAllTrial> all() const {
    return std::span(list).first(static_cast<std::size_t>(count));
  }
};

/// Measured by probe(), or known to the caller; equal on all ranks of a group that exchanges.
struct MessageCosts {
  LinkCosts inter_node, intra_node;
  double copy_per_byte = 0;  // seconds, on the device
  double per_operation = 0;  // of a host, to post messages or to launch copies, where that is apart
  /// What messages cost, they cost while bytes move, and a host posts while messages are on their
  /// way, even those that come after them.
  bool overlap = false;
  AllToAllTrials trials = {};  // where measured: what the costs do not explain

  /// What messages take that cost so much, and whose bytes so much.
  double together(double messages, double bytes) const {
    return overlap ? std::max(messages, bytes) : messages + bytes;
  }

  /// So many posts, of which the first is needed before anything moves for so many seconds.
  double posted(double posts, double moving) const {
    return overlap ? std::max(posts * per_operation, per_operation + moving)
                   : posts * per_operation + moving;
  }
};

}  // namespace ringspan::comm
