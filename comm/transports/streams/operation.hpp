// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/buffer.hpp"
#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/diagnosis/hub.hpp"

namespace ringspan::comm::streams {

using diagnosis::Channel;

/// One half of a message.
struct Message {
  int peer = 0;  // world rank
  Slice slice;
  bool sends = false;
  std::int64_t number = 0;  // among all messages between these two, in this direction
  std::int64_t place = 0;   // where the connection has announced it
};

/// What one rank posted at once, queued on its transfer stream.
struct Operation {
  explicit Operation(const std::shared_ptr<const cuda::Gpu>& gpu) : ready(gpu), over(gpu) {}

  bool done() const { return finished; }

  /// Nothing on the host needs its memory any more; what is queued may.
  void let_go() {
    for (auto* messages : {&sends, &recvs})
      for (Message& message : *messages) message.slice.buffer = {};
  }

  std::shared_ptr<Channel> channel;
  std::int64_t sequence = 0;          // within the channel
  std::vector<std::int64_t> records;  // in the flight recorder
  std::string name;
  std::vector<Message> sends, recvs;
  cuda::Event ready;  // the compute stream has got to where it was posted
  cuda::Event over;   // all its messages have been sent and received
  std::vector<std::shared_ptr<const void>> held;  // what its messages need until it is over
  bool captured = false;                          // part of a graph: its events cannot be looked at
  bool settled = false;                           // the compute stream comes after it
  bool finished = false;                          // seen to be over
};

}  // namespace ringspan::comm::streams
