// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/cluster.hpp"
#include "comm/transport.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/simulated/event.hpp"
#include "comm/transports/simulated/platform.hpp"

namespace ringspan::comm::simulated {

class Engine;
class Transfer;

/// What the members of one group share.
struct Channel : diagnosis::Group {
  Channel(std::int64_t number, std::vector<int> ranks, bool one_node)
      : Group(number, std::move(ranks)), on_one_node(one_node), posted(members.size()) {}

  /// Messages of a pair of world ranks of which one half is posted, in order.
  struct Lane {
    std::shared_ptr<Transfer> first;
    Transfer* last = nullptr;
  };
  static std::uint64_t pair(int from, int to) {
    return std::uint64_t(from) << 32 | std::uint32_t(to);
  }

  const bool on_one_node;
  std::vector<std::int64_t> posted;  // operations so far, [rank of the group]
  std::unordered_map<std::uint64_t, Lane> lanes;
};

/// What both halves of a message know of the operation that they belong to.
struct Title {
  std::shared_ptr<Channel> channel;
  int rank = 0;  // world rank
  std::int64_t sequence = 0;
  std::string name;
};

/// One half of a message; without an engine, it is not posted yet.
struct End {
  diagnosis::Half half() const {
    return {title->rank, title->name, title->sequence, bytes, number};
  }

  Engine* engine = nullptr;
  std::shared_ptr<const Title> title;
  Slice slice;           // until it is waited for
  bool storage = false;  // of the slice
  std::int64_t bytes = 0;
  std::int64_t number = 0;  // among all messages between the two, over all groups
};

/// A message: it starts when both halves are posted and what their ranks had queued before is done,
/// and takes its latency and then its share of the links.
class Transfer final : public Event {
 public:
  Transfer() : Event(2) {}

  /// Keeps what is to be sent as it is now, if it has storage.
  void take_values();

  End sender, receiver;
  double not_before = 0;
  std::shared_ptr<Transfer> next;  // in its lane

 private:
  void start() override;
  void begin();
  void move();
  void arrive();

  Platform& platform() const;

  MessageModel model_;
  Call arrived_ = Call::to<&Transfer::arrive>(this);
  double begun_ = 0;
  std::vector<std::byte> values_;
};

/// What one rank posted at once.
struct Operation : std::enable_shared_from_this<Operation> {
  struct Message {
    End& end() const { return sending ? transfer->sender : transfer->receiver; }

    std::shared_ptr<Transfer> transfer;
    bool sending = false;
    int peer = 0;  // world rank
  };

  bool done() const { return done_by(std::numeric_limits<double>::infinity()); }
  bool done_by(double time) const;   // of the clock
  std::vector<int> awaited() const;  // world ranks, of messages that have not arrived

  std::shared_ptr<const Title> title;
  std::vector<Message> messages;
  std::int64_t record = 0;  // in the flight recorder
  bool settled = false;     // was waited for, or given up
};

}  // namespace ringspan::comm::simulated
