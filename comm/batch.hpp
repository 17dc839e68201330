// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// The messages of one post(), collected: how an exchange whose lengths vary says what it moves. A
/// slice without bytes is no message, so that both sides of an empty pair leave it out by the same
/// rule. Posting it empty is still an operation of the group.
class Batch {
 public:
  void send(int to, Slice slice) {
    if (slice.bytes() > 0) sends_.push_back({to, std::move(slice)});
  }
  void receive(int from, Slice slice, Buffer* rebind = nullptr) {
    if (slice.bytes() > 0) recvs_.push_back({from, std::move(slice), rebind});
  }

  /// With the messages of another behind its own.
  void append(Batch other) {
    for (Send& send : other.sends_) sends_.push_back(std::move(send));
    for (Recv& recv : other.recvs_) recvs_.push_back(std::move(recv));
  }

  /// Gives the slices away; a batch that is posted repeatedly is copied first.
  Request post(const Communicator& comm, std::string_view operation) && {
    return comm.post(operation, sends_, recvs_);
  }

 private:
  std::vector<Send> sends_;
  std::vector<Recv> recvs_;
};

/// At most one message each way, by the same rule; allocates nothing.
inline Request post_pair(const Communicator& comm, std::string_view operation, int to, Slice sent,
                         int from, Slice received, Buffer* rebind = nullptr) {
  Send send{to, std::move(sent)};
  Recv recv{from, std::move(received), rebind};
  const std::size_t sends = send.slice.bytes() > 0 ? 1 : 0, recvs = recv.slice.bytes() > 0 ? 1 : 0;
  return comm.post(operation, {&send, sends}, {&recv, recvs});
}

}  // namespace ringspan::comm
