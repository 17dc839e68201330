// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/threads/hub.hpp"

#include <algorithm>
#include <chrono>

namespace ringspan::comm::threads {

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Hub::Hub(const LaunchOptions& options)
    : options_(options),
      world_(std::make_shared<World>(World{even_places(options.ranks, options.ranks_per_node),
                                           options.hop == Hop::reference, options.deadline})),
      ranks_(options.ranks) {
  for (Rank& rank : ranks_) rank.heartbeat = steady_now();
}

std::shared_ptr<Channel> Hub::join(int parent, std::int64_t call, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Channel>& channel = channels_[{parent, call, members}];
  if (!channel) channel = std::make_shared<Channel>(static_cast<int>(channels_.size()), members);
  return channel;
}

void Hub::beat(int rank) { ranks_[rank].heartbeat = steady_now(); }

void Hub::pass_on(int rank, std::int64_t heartbeat) {
  std::atomic<std::int64_t>& own = ranks_[rank].heartbeat;  // no other rank writes it
  own = std::max(own.load(), heartbeat);
}

void Hub::set_returned(int rank) {
  ranks_[rank].returned = true;
  for (Rank& other : ranks_) other.mailbox.ring();
}

void Hub::set_waiting(int rank, std::optional<Waiting> waiting) {
  const std::lock_guard lock(ranks_[rank].mutex);
  ranks_[rank].waiting = std::move(waiting);
}

std::optional<Waiting> Hub::waiting(int rank) const {
  const std::lock_guard lock(ranks_[rank].mutex);
  return ranks_[rank].waiting;
}

void Hub::fail(const Error& cause, const Error& thrown) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_.emplace(Failure{cause, thrown});
    failed_ = true;
  }
  for (Rank& rank : ranks_) rank.mailbox.ring();
}

// A fresh Error each time: an exception object is not for several threads.
void Hub::throw_failure(int rank) const {
  const std::lock_guard lock(mutex_);
  Error::Where where = failure_->cause.where();
  where.rank = rank;
  throw Error(failure_->cause.kind(), failure_->cause.what(), where);
}

void Hub::finish() const {
  if (failed()) throw failure_->thrown;
  if (options_.debug.ledger) check_operation_counts();
}

void Hub::check_operation_counts() const {
  for (const auto& [key, channel] : channels_) {
    for (std::size_t i = 1; i < channel->members.size(); ++i) {
      const std::int64_t first = channel->posted[0], other = channel->posted[i];
      if (first == other) continue;
      const int fewer = channel->members[first < other ? 0 : i];
      throw Error(ErrorKind::peer_failed,
                  concat("ledger: rank ", channel->members[0], " posted ", first,
                         " operations and rank ", channel->members[i], " posted ", other,
                         " in a group of both; every rank of a group posts every operation"),
                  {.peer = fewer});
    }
  }
}

}  // namespace ringspan::comm::threads
