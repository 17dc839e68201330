// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::comm::diagnosis {

/// The ranks that share one channel. No rank ever sees two groups of one id.
struct Group {
  Group(std::int64_t number, std::vector<int> ranks) : id(number), members(std::move(ranks)) {}

  const std::int64_t id;
  const std::vector<int> members;  // world ranks, [rank of the group]
};

/// What a blocked rank waits for.
struct Waiting {
  std::shared_ptr<const Group> group;  // null: for no operation of a group
  std::int64_t sequence = -1;
  std::string operation;
  std::vector<int> peers;  // world ranks
  /// By the steady clock, in ns, of a rank that tests: it may do anything else since. 0: it blocks.
  std::int64_t looked_at = 0;
};

/// What can be found out about every rank of a world, so that a wait in vain can name the rank to
/// blame.
///
/// Heartbeats: a rank's rises with its real progress; while it waits it passes on the newest of
/// those it waits for. A chain of waits behind a slow rank that progresses thus stays fresh; in a
/// cycle of waits nothing new ever enters, and it goes stale.
class Board {
 public:
  virtual ~Board() = default;

  virtual int size() const = 0;
  virtual std::int64_t heartbeat(int rank) const = 0;
  /// Empty if the rank does not wait.
  virtual std::optional<Waiting> waiting(int rank) const = 0;
  /// Operations of the group that the rank is known to have posted.
  virtual std::int64_t posted(const Group& group, int rank) const = 0;
  /// Its function has ended.
  virtual bool returned(int rank) const = 0;
  /// False if the rank does not answer, so that no more is known than what it did earlier.
  virtual bool answers(int rank) const = 0;
};

/// What to report when `rank` has waited in vain for `deadline` seconds; infinite: for ever.
Error blame(const Board& board, int rank, const Waiting& waiting, double deadline);

/// The same when `peer`, which it waits for, has returned, or is gone for the reason given.
Error blame_gone(const Board& board, int rank, const Waiting& waiting, int peer,
                 const std::string& reason = "has returned");

/// For how long those waited for have shown no progress, judged by a heartbeat.
class Patience {
 public:
  double seconds_since_change(std::int64_t heartbeat);

 private:
  std::int64_t heartbeat_ = -1;
  std::int64_t changed_at_ = 0;
};

}  // namespace ringspan::comm::diagnosis
