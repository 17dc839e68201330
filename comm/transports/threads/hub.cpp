// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/threads/hub.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <latch>
#include <numeric>
#include <thread>

#include "comm/transports/diagnosis/ledger.hpp"

namespace ringspan::comm::threads {

Hub::Hub(const LaunchOptions& options)
    : options_(options),
      crowded_(options.ranks > diagnosis::usable_cores()),  // the ranks' threads inherit them
      world_(std::make_shared<World>(
          World{even_places(options.ranks, options.ranks_per_node, options.ranks_per_numa_domain),
                options.hop == Hop::reference, options.deadline})),
      ranks_(options.ranks) {
  for (Rank& rank : ranks_) rank.heartbeat = steady_now();
}

std::shared_ptr<Channel> Hub::join(std::int64_t parent, std::int64_t call,
                                   const std::vector<int>& members) {
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
  const std::optional<Waiting>& waiting = ranks_[rank].waiting;
  return waiting && outdated(waiting->looked_at) ? std::nullopt : waiting;
}

std::int64_t Hub::posted(const diagnosis::Group& group, int rank) const {
  const auto& members = group.members;
  const auto found = std::find(members.begin(), members.end(), rank);
  if (found == members.end()) return 0;
  return static_cast<const Channel&>(group).posted[found - members.begin()].load();
}

void Hub::set_returned(int rank) {
  ranks_[rank].returned = true;
  for (Rank& other : ranks_) other.mailbox.ring();
}

// However long: whoever has a message to wait for knows better what is wrong.
void Hub::await_returns(int rank) {
  constexpr double kNap = 0.1;  // seconds
  const auto returned = [](const Rank& other) { return other.returned.load(); };
  for (;;) {
    const std::int64_t seen = mailbox(rank).events();
    if (failure_ || std::all_of(ranks_.begin(), ranks_.end(), returned)) return;
    mailbox(rank).sleep(seen, kNap);
  }
}

void Hub::sent(const Buffer& buffer, int to) {
  if (!world_->lends || !buffer) return;
  const std::lock_guard lock(sent_mutex_);
  sent_[buffer.data()].insert(to);
}

void Hub::reclaimed(const Buffer& buffer) {
  if (!world_->lends || !buffer) return;
  const std::lock_guard lock(sent_mutex_);
  sent_.erase(buffer.data());
}

// Where hops copy, a message may still be on its way to anybody.
std::vector<int> Hub::holders(const Buffer& buffer) const {
  if (!world_->lends) {
    std::vector<int> all(size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const std::lock_guard lock(sent_mutex_);
  const auto found = sent_.find(buffer.data());
  if (found == sent_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Hub::fail(const diagnosis::Failure& failure) {
  if (!failure_.set(failure)) return;
  for (Rank& rank : ranks_) rank.mailbox.ring();
}

std::optional<Error> Hub::outcome() const {
  if (const auto failure = failure_.get()) return failure->thrown;
  if (!options_.debug.ledger) return {};
  for (const auto& [key, channel] : channels_) {
    const std::vector<std::int64_t> posted(channel->posted.begin(), channel->posted.end());
    if (const auto error = diagnosis::unequal_counts(channel->members, posted)) return error;
  }
  return {};
}

void run_each(diagnosis::Hub& hub, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(hub.size());
  std::latch started(hub.size());  // a thread yet to start must not look like a silent rank
  try {
    for (int rank = 0; rank < hub.size(); ++rank) {
      threads.emplace_back([&, rank] {
        started.arrive_and_wait();
        body(rank);
      });
    }
  } catch (const std::exception& error) {
    hub.fail(Error(ErrorKind::system, concat("launch: thread ", threads.size(), " of ", hub.size(),
                                             " does not start: ", error.what())));
    started.count_down(hub.size() - std::ssize(threads));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ringspan::comm::threads
