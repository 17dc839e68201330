// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/transport.hpp"
#include "comm/transports/diagnosis/hub.hpp"
#include "comm/transports/diagnosis/ledger.hpp"

namespace ringspan::comm::threads {

using diagnosis::Channel;

/// The sender's half of a message. Whoever moves `state` on from posted owns the slice: the
/// receiver, which takes it, or the sender, which withdraws it when it gives up.
struct Outgoing {
  enum class State { posted, taken, received, withdrawn };

  bool take() {
    State expected = State::posted;
    return state.compare_exchange_strong(expected, State::taken);
  }

  /// Afterwards nobody reads the slice any more. Waits for no more than a copy that is under way.
  void withdraw() {
    State expected = State::posted;
    if (state.compare_exchange_strong(expected, State::withdrawn)) return;
    while (state.load() == State::taken) std::this_thread::yield();
  }

  int to = 0;  // world rank
  Slice slice;
  std::int64_t number = 0;  // among all messages from this rank to that one, over all groups
  std::atomic<State> state{State::posted};
};

/// The receiver's half; only its own thread touches it.
struct Incoming {
  int from = 0;  // world rank
  Slice slice;
  Buffer* rebind = nullptr;
  std::int64_t number = 0;
  bool received = false;
};

/// What one rank posted at once. The receivers of its messages share it.
struct Operation {
  bool done() const { return expected == 0 && unreceived.load() == 0; }

  /// World ranks that have yet to send or receive.
  std::vector<int> awaited() const {
    std::vector<int> peers;
    for (const Outgoing& message : sends)
      if (message.state.load() != Outgoing::State::received) peers.push_back(message.to);
    for (const Incoming& message : recvs)
      if (!message.received) peers.push_back(message.from);
    return peers;
  }

  std::shared_ptr<Channel> channel;
  std::int64_t record = 0;    // in the flight recorder
  int rank = 0;               // world rank
  std::int64_t sequence = 0;  // within the channel
  std::string name;
  std::vector<Outgoing> sends;
  std::vector<Incoming> recvs;
  std::atomic<std::int64_t> unreceived{0};  // of sends
  std::int64_t expected = 0;                // of recvs
};

/// Message `index` of an operation, in the hands of its receiver.
struct Letter {
  Outgoing& sent() const { return operation->sends[index]; }
  Incoming& expected() const { return operation->recvs[index]; }

  diagnosis::Half sender() const {
    return {operation->rank, operation->name, operation->sequence, sent().slice.bytes(),
            sent().number};
  }
  diagnosis::Half receiver() const {
    return {operation->rank, operation->name, operation->sequence, expected().slice.bytes(),
            expected().number};
  }

  std::shared_ptr<Operation> operation;
  std::size_t index = 0;
};

}  // namespace ringspan::comm::threads
