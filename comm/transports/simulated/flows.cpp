// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/flows.hpp"

#include <algorithm>
#include <limits>

namespace ringspan::comm::simulated {
namespace {

constexpr std::size_t kMostInGroup = 64;  // an all-to-all of 8 GPUs has 56

}  // namespace

/// Flows that share links with each other, directly or through others, and with no flow of another
/// group. They may have ceased to.
struct Flows::Group {
  void add(const Flow& flow);
  std::vector<Flow> take();
  void own_links(const std::vector<Flow>& crossing, Group* owner) const;
  void advance();
  void schedule();
  void end();

  Flows* all;
  std::vector<Flow> flows = {};
  double since = 0;  // when their bytes were true
  Platform::Timer* timer = nullptr;
};

Flows::Flows(Platform& platform)
    : platform_(platform),
      owner_(platform.wiring().links().size()),
      shared_(platform.wiring().links().size()),
      left_(platform.wiring().links().size()),
      crossing_(platform.wiring().links().size()) {}

Flows::~Flows() = default;

template <typename Each>
void Flows::for_each_link(const Ports& ports, const Each& each) const {
  const std::vector<Wiring::Port>& all = platform_.wiring().ports();
  for (const int link : all[ports.first].out) each(link);
  for (const int link : all[ports.second].in) each(link);
}

Flows::Group& Flows::group() {
  if (idle_.empty()) {
    groups_.push_back(std::make_unique<Group>(Group{this}));
    return *groups_.back();
  }
  Group& group = *idle_.back();
  idle_.pop_back();
  return group;
}

// Whatever the new flow meets becomes one group, the largest, or SimGrid's.
void Flows::start(const Place& from, const Place& to, double bytes, double most_bytes_per_second,
                  const Call& arrived) {
  const Flow flow{platform_.wiring().ports(from, to), bytes, most_bytes_per_second, &arrived};
  std::vector<Group*> met;
  bool few = true;
  std::size_t flows = 1;
  for_each_link(flow.ports, [&](int link) {
    Group* const owner = owner_[link];
    few = few && shared_[link] == 0;
    if (!owner || std::find(met.begin(), met.end(), owner) != met.end()) return;
    flows += owner->flows.size();
    met.push_back(owner);
    if (owner->flows.size() > met.front()->flows.size()) std::swap(met.front(), met.back());
  });
  if (!few || flows > kMostInGroup) {
    for (Group* group : met)
      for (const Flow& other : group->take()) share(other);
    return share(flow);
  }
  if (met.empty()) met.push_back(&group());
  Group& joined = *met.front();
  joined.advance();
  for (auto other = met.begin() + 1; other != met.end(); ++other)
    for (const Flow& taken : (*other)->take()) joined.add(taken);
  joined.add(flow);
  joined.schedule();
}

void Flows::share(const Flow& flow) {
  for_each_link(flow.ports, [&](int link) { ++shared_[link]; });
  auto* const shared = new Shared{this, flow.ports, flow.arrived};
  platform_.flow(flow.ports.first, flow.ports.second, flow.bytes, flow.most_bytes_per_second,
                 shared->ended);
}

void Flows::Shared::end() {
  all->for_each_link(ports, [this](int link) { --all->shared_[link]; });
  const Call& call = *arrived;
  delete this;
  call();
}

double Flows::fair_rate(const Flow& flow) const {
  double rate = flow.most_bytes_per_second;
  for_each_link(flow.ports,
                [&](int link) { rate = std::min(rate, left_[link] / crossing_[link]); });
  return rate;
}

// Of those that have no rate yet, whoever gets least, be it by a link or by its own cap, gets that;
// what it leaves is shared by the others.
void Flows::set_rates(std::vector<Flow>& flows) {
  waiting_.clear();
  for (Flow& flow : flows) {
    waiting_.push_back(&flow);
    for_each_link(flow.ports, [&](int link) {
      left_[link] = platform_.wiring().links()[link].bytes_per_second;
      crossing_[link] = 0;
    });
  }
  for (const Flow& flow : flows) for_each_link(flow.ports, [&](int link) { ++crossing_[link]; });
  while (!waiting_.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (Flow* flow : waiting_) {
      flow->rate = fair_rate(*flow);
      least = std::min(least, flow->rate);
    }
    const auto settled =
        std::partition(waiting_.begin(), waiting_.end(),
                       [least](const Flow* flow) { return flow->rate > least * (1 + 1e-12); });
    for (auto flow = settled; flow != waiting_.end(); ++flow) {
      for_each_link((*flow)->ports, [&](int link) {
        left_[link] -= (*flow)->rate;
        --crossing_[link];
      });
    }
    waiting_.erase(settled, waiting_.end());
  }
}

void Flows::Group::own_links(const std::vector<Flow>& crossing, Group* owner) const {
  for (const Flow& flow : crossing)
    all->for_each_link(flow.ports, [&](int link) { all->owner_[link] = owner; });
}

void Flows::Group::add(const Flow& flow) {
  all->for_each_link(flow.ports, [this](int link) { all->owner_[link] = this; });
  flows.push_back(flow);
}

// The links are nobody's then.
std::vector<Flows::Flow> Flows::Group::take() {
  advance();
  all->platform_.cancel(timer);
  timer = nullptr;
  own_links(flows, nullptr);
  all->idle_.push_back(this);
  return std::exchange(flows, {});
}

void Flows::Group::advance() {
  const double now = all->platform_.now();
  for (Flow& flow : flows) flow.bytes -= flow.rate * (now - since);
  since = now;
}

void Flows::Group::schedule() {
  all->set_rates(flows);
  double first = std::numeric_limits<double>::infinity();
  for (const Flow& flow : flows) first = std::min(first, flow.bytes / flow.rate);
  if (timer) all->platform_.cancel(timer);
  timer = all->platform_.at(since + std::max(first, 0.0), Call::to<&Group::end>(this));
}

// Of the first to arrive, and whoever has less than a picosecond left.
void Flows::Group::end() {
  timer = nullptr;
  advance();
  const auto seconds = [](const Flow& flow) { return flow.bytes / flow.rate; };
  double first = std::numeric_limits<double>::infinity();
  for (const Flow& flow : flows) first = std::min(first, seconds(flow));
  const auto left = std::stable_partition(
      flows.begin(), flows.end(), [&](const Flow& flow) { return seconds(flow) <= first + 1e-12; });
  const std::vector<Flow> arrived(flows.begin(), left);
  flows.erase(flows.begin(), left);
  own_links(arrived, nullptr);
  own_links(flows, this);
  if (flows.empty()) {
    all->idle_.push_back(this);
  } else {
    schedule();
  }
  for (const Flow& flow : arrived) (*flow.arrived)();
}

}  // namespace ringspan::comm::simulated
