// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/compute_queue.hpp"

#include <algorithm>
#include <utility>

namespace ringspan::comm::simulated {

void ComputeQueue::run(double begin, double seconds, const Call& ended) {
  since_ = std::max(begin, platform_.now());
  left_ = seconds;
  ended_ = ended;
  schedule();
}

void ComputeQueue::schedule() {
  end_ = platform_.at(since_ + left_ * slowdown_, Call::to<&ComputeQueue::end>(this));
}

void ComputeQueue::end() {
  end_ = nullptr;
  ended_();  // which may run the next
}

void ComputeQueue::begin_message(double slowdown) {
  if (slowdown <= 1) return;
  messages_.push_back(slowdown);
  set_slowdown();
}

void ComputeQueue::end_message(double slowdown) {
  if (slowdown <= 1) return;
  messages_.erase(std::find(messages_.begin(), messages_.end(), slowdown));
  set_slowdown();
}

void ComputeQueue::set_slowdown() {
  const double slowest =
      messages_.empty() ? 1 : *std::max_element(messages_.begin(), messages_.end());
  if (slowest == slowdown_) return;
  const double before = std::exchange(slowdown_, slowest);
  if (!end_) return;
  const double now = platform_.now();
  if (now > since_) left_ = std::max(left_ - (now - since_) / before, 0.0);
  since_ = std::max(since_, now);
  platform_.cancel(end_);
  schedule();
}

}  // namespace ringspan::comm::simulated
