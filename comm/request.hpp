// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace ringspan::comm {

/// A batch of messages in flight; it keeps their buffers alive. wait() means "what I submit next
/// sees the data, and may overwrite what I sent": a host transport progresses and blocks, a GPU
/// transport orders the compute stream behind the copy, virtual time moves forward. Dropping a
/// pending request poisons the communicator and returns at once: destructors never wait.
class [[nodiscard]] Request {
 public:
  /// What a transport implements. Its destructor, reached while messages are still in flight,
  /// abandons them: it poisons the communicator and leaves no peer a pointer into freed memory.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual bool test() = 0;
    virtual void wait() = 0;
  };

  Request() = default;  // nothing in flight
  explicit Request(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}

  /// True once all messages have arrived; makes progress, never blocks, throws on failure.
  bool test() {
    if (pending_ && pending_->test()) pending_.reset();
    return !pending_;
  }

  /// Throws timeout or peer_failed, naming the rank to blame, when the awaited peer makes no
  /// progress for the communicator's deadline. A slow peer that progresses is waited for.
  void wait() {
    if (!pending_) return;
    pending_->wait();
    pending_.reset();
  }

 private:
  std::unique_ptr<Pending> pending_;
};

}  // namespace ringspan::comm
