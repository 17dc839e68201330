// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "comm/transports/diagnosis/ledger.hpp"

namespace ringspan::comm::nccl {

/// The halves of all messages of a world whose ranks share this process. NCCL compares nothing: a
/// size that differs hangs, and an order that differs swaps messages. So whoever posts the second
/// half of a message is told what does not fit before NCCL sees it.
class Pairs {
 public:
  /// `strict`: what the debug ledger asks for, too.
  explicit Pairs(bool strict) : strict_(strict) {}

  using Key = std::tuple<int, int, std::int64_t>;  // from, to, channel

  /// `half` is of the rank that sends, or else of the one that receives. Returns its place among
  /// those of its side.
  std::int64_t add(const Key& key, const diagnosis::Half& half, bool sends,
                   std::optional<Error>& wrong);

  /// Whether the other half has been posted.
  bool has_met(const Key& key, bool sends, std::int64_t place) const;

 private:
  using Halves = std::deque<diagnosis::Half>;
  /// Halves that have not met, in order, and how many there have been.
  struct Lane {
    Halves sent, awaited;
    std::int64_t sends = 0, recvs = 0;
  };

  std::optional<Error> compare(const Key& key);
  std::optional<diagnosis::Half> waiting(const Key& key, Halves Lane::*side,
                                         std::int64_t number) const;

  const bool strict_;
  mutable std::mutex mutex_;
  std::map<Key, Lane> lanes_;
};

}  // namespace ringspan::comm::nccl
