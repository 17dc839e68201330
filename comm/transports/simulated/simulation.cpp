// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/simulation.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/simulated/simulated_transport.hpp"

namespace ringspan::comm::simulated {
namespace {

World world_of(const LaunchOptions& options) {
  return {.places = places(*options.cluster, options.ranks, options.ranks_per_node),
          .deadline = options.deadline,
          .cluster = options.cluster};
}

}  // namespace

Simulation::Simulation(const LaunchOptions& options)
    : options_(options),
      world_(std::make_shared<World>(world_of(options))),
      platform_(Platform::of(*options.cluster)),
      flows_(platform_),
      start_(platform_.now()),
      returned_(options.ranks) {}

void Simulation::run(const RankFunction& body) {
  for (int rank = 0; rank < options_.ranks; ++rank)
    engines_.push_back(std::make_shared<Engine>(shared_from_this(), rank));
  platform_.run(
      options_.ranks, [&](int rank) { run_rank(rank, body); }, [this] { blame_deadlock(); });
  const auto error = outcome();
  for (const auto& engine : engines_)  // of ranks that had returned before it failed, too
    if (error && engine->recorder()) engine->recorder()->dump(options_.flight_recorder, *error);
  engines_.clear();
  for (const auto& [key, channel] : channels_) channel->lanes.clear();
  if (error) throw *error;
}

void Simulation::run_rank(int rank, const RankFunction& body) {
  const std::shared_ptr<Engine> engine = engines_[rank];
  std::vector<int> members(options_.ranks);
  std::iota(members.begin(), members.end(), 0);
  try {
    body(Communicator(std::make_shared<SimulatedTransport>(engine, join(-1, 0, members), rank),
                      world_));
    engine->synchronize();
  } catch (...) {
    fail(diagnosis::failure_of_rank(rank, std::current_exception()));
  }
  returned_[rank] = true;
  const auto failure = failure_.get();
  if (failure && engine->recorder())
    engine->recorder()->dump(options_.flight_recorder, failure->thrown);
}

std::shared_ptr<Channel> Simulation::join(std::int64_t parent, std::int64_t call,
                                          const std::vector<int>& members) {
  std::shared_ptr<Channel>& channel = channels_[{parent, call, members}];
  if (channel) return channel;
  const bool one_node = std::all_of(members.begin(), members.end(), [&](int rank) {
    return place(rank).node == place(members[0]).node;
  });
  const auto id = static_cast<std::int64_t>(channels_.size());
  return channel = std::make_shared<Channel>(id, members, one_node);
}

// Ranks are resumed a moment later, because whoever fails may not yield its turn here. Another
// thread, which may only abort, leaves it to what the ranks do next.
void Simulation::fail(const diagnosis::Failure& failure) {
  failure_.set(failure);
  if (platform_.on_own_thread() && running()) wake_all_soon();
}

void Simulation::wake_all_soon() {
  if (!std::exchange(waking_, true))
    platform_.at(platform_.now(), Call::to<&Simulation::wake_all>(this));
}

void Simulation::wake_all() {
  for (const auto& engine : engines_) engine->wake();
}

std::optional<diagnosis::Waiting> Simulation::waiting(int rank) const {
  return engines_[rank]->waiting();
}

std::int64_t Simulation::posted(const diagnosis::Group& group, int rank) const {
  const auto& members = group.members;
  const auto found = std::find(members.begin(), members.end(), rank);
  if (found == members.end()) return 0;
  return static_cast<const Channel&>(group).posted[found - members.begin()];
}

void Simulation::blame_deadlock() {
  if (failure_) return wake_all_soon();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::optional<diagnosis::Waiting> waiting = this->waiting(rank);
    if (waiting)
      return fail(diagnosis::blame(*this, rank, *waiting, std::numeric_limits<double>::infinity()));
  }
}

std::optional<Error> Simulation::outcome() const {
  if (const auto failure = failure_.get()) return failure->thrown;
  if (!options_.debug.ledger) return {};
  for (const auto& [key, channel] : channels_)
    if (const auto error = diagnosis::unequal_counts(channel->members, channel->posted))
      return error;
  return {};
}

}  // namespace ringspan::comm::simulated
