// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/threads/hub.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace ringspan::comm::threads {
namespace {

// Of the calling thread, which the ranks' threads inherit; fewer than the machine has where a job
// is confined to some.
int usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::int64_t steady_now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

Hub::Hub(const LaunchOptions& options)
    : options_(options),
      crowded_(options.ranks > usable_cores()),
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

void Hub::set_waiting(int rank, std::optional<Waiting> waiting) {
  const std::lock_guard lock(ranks_[rank].mutex);
  ranks_[rank].waiting = std::move(waiting);
}

std::optional<Waiting> Hub::waiting(int rank) const {
  const std::lock_guard lock(ranks_[rank].mutex);
  return ranks_[rank].waiting;
}

void Hub::set_returned(int rank) {
  ranks_[rank].returned = true;
  for (Rank& other : ranks_) other.mailbox.ring();
}

void Hub::fail(const Error& cause, const Error& thrown) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Failure{cause, thrown};
    failed_ = true;
  }
  for (Rank& rank : ranks_) rank.mailbox.ring();
}

// A new Error each time: one exception object is not for several threads.
void Hub::throw_failure(int rank) const {
  const std::lock_guard lock(mutex_);
  const Error& cause = failure_->cause;
  Error::Where where = cause.where();
  where.rank = rank;
  throw Error(cause.kind(), cause.what(), where);
}

void Hub::finish() const {
  if (failed()) throw failure_->thrown;
  if (options_.debug.ledger) require_equal_counts();
}

void Hub::require_equal_counts() const {
  for (const auto& [key, channel] : channels_) {
    const auto& counts = channel->posted;
    const auto fewest = std::min_element(counts.begin(), counts.end());
    const auto most = std::max_element(counts.begin(), counts.end());
    if (*fewest == *most) continue;
    const int lacking = channel->members[fewest - counts.begin()];
    throw Error(ErrorKind::peer_failed,
                concat("ledger: rank ", lacking, " posted ", *fewest, " operations in a group in ",
                       "which rank ", channel->members[most - counts.begin()], " posted ", *most,
                       "; every rank of a group posts every operation"),
                {lacking, lacking});
  }
}

}  // namespace ringspan::comm::threads
