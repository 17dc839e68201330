// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/transport.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::processes {

/// A group as this rank takes part in it. Its id is the tag of its messages.
struct Channel : diagnosis::Group {
  Channel(std::int64_t number, std::vector<int> ranks, int own_rank)
      : Group(number, std::move(ranks)), rank(own_rank) {}

  const int rank;           // this rank, in the group
  std::int64_t posted = 0;  // operations so far, by this rank
};

/// What precedes each message where the debug ledger is kept.
struct Header {
  std::int64_t bytes = 0, sequence = 0, number = 0;
  char operation[104] = {};  // cut off, if need be
};

/// One half of a message. Rows are packed into staging memory, since the wire knows none.
struct Message {
  bool packed() const { return staging.data() != nullptr; }
  std::byte* memory() const { return packed() ? staging.data() : slice.data(); }

  int peer = 0;  // world rank
  Slice slice;
  Buffer staging = {};
  std::int64_t number = 0;   // among all messages between these two, in this direction
  std::int64_t missing = 0;  // parts that have not arrived or left
  /// Whether the peer has posted it, too; perhaps, as long as it does not answer. For
  /// may_be_moving().
  enum class Met { no, perhaps, yes } met = Met::no;
  Header* header = nullptr;  // of those of its direction
};

/// What the wire carries of a message at once: its header, or some of its bytes (cut_of()).
struct Part {
  Message* message = nullptr;
  std::int64_t bytes = 0;
  bool header = false;
  std::unique_ptr<Transfer> transfer;  // null: done
};

/// The messages of an operation in one direction, with their parts in order.
struct Direction {
  bool done() const { return first == parts.size(); }

  void clear() {
    messages.clear();
    headers.clear();
    parts.clear();
    first = 0;
  }

  std::vector<Message> messages;
  std::vector<Header> headers;  // [message], where the debug ledger is kept
  std::vector<Part> parts;
  std::size_t first = 0;  // part that is not done
};

/// What one rank posted at once.
struct Operation {
  bool done() const { return started && sends.done() && recvs.done(); }

  /// World ranks that have yet to send or receive.
  std::vector<int> awaited() const {
    std::vector<int> peers;
    for (const Direction* direction : {&sends, &recvs})
      for (const Message& message : direction->messages)
        if (message.missing > 0) peers.push_back(message.peer);
    return peers;
  }

  std::shared_ptr<Channel> channel;
  std::int64_t sequence = 0;  // within the channel
  std::int64_t record = 0;    // in the flight recorder
  std::string name;
  /// On a GPU: the wire is given nothing before what was queued there at the post has run.
  std::shared_ptr<const cuda::Event> queued = {};
  std::int64_t posted_at = 0;  // steady_now()
  bool started = false;
  Direction sends, recvs;
};

}  // namespace ringspan::comm::processes
