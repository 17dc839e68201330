// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/transports/simulated/platform.hpp"

namespace ringspan::comm::simulated {

/// Something that happens once in virtual time: it starts when all that it comes after is done, and
/// ends on its own. It lives until then, whoever else forgets it.
class Event : public std::enable_shared_from_this<Event> {
 public:
  virtual ~Event() = default;

  bool done() const { return done_at_ >= 0; }
  bool done_by(double time) const { return done() && done_at_ <= time; }
  double done_at() const { return done_at_; }  // of the clock
  bool begun() const { return self_ || done(); }
  /// Something comes after it.
  bool awaited() const { return !later_.empty(); }

  /// Before it is released. What is done or null already delays nothing.
  void after(const std::shared_ptr<Event>& other) {
    if (!other || other->done()) return;
    other->later_.push_back(shared_from_this());
    ++missing_;
  }

  /// One of what it comes after is done; at first, one of the `releases` that it was made with.
  void release() {
    if (--missing_ > 0) return;
    self_ = shared_from_this();
    start();
  }

 protected:
  explicit Event(int releases = 1) : missing_(releases) {}

  /// Ends in a call of end(), now or later.
  virtual void start() = 0;

  void end() {
    const std::shared_ptr<Event> self = std::move(self_);
    done_at_ = Platform::clock();
    for (const std::shared_ptr<Event>& event : std::exchange(later_, {})) event->release();
  }

 private:
  int missing_;
  double done_at_ = -1;
  std::vector<std::shared_ptr<Event>> later_;
  std::shared_ptr<Event> self_;
};

}  // namespace ringspan::comm::simulated
