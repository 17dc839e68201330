// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/flows.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ringspan::comm::simulated {

Flows::Flows(Platform& platform)
    : platform_(platform),
      owner_(platform.wiring().links().size()),
      shared_(platform.wiring().links().size()) {}

template <typename Each>
void Flows::for_each_link(const Ports& ports, const Each& each) const {
  const std::vector<Wiring::Port>& all = platform_.wiring().ports();
  for (const int link : all[ports.first].out) each(link);
  for (const int link : all[ports.second].in) each(link);
}

Flows::Pair& Flows::pair(const Ports& ports) {
  const std::uint64_t key = std::uint64_t(ports.first) << 32 | std::uint32_t(ports.second);
  const auto [entry, added] = pairs_.try_emplace(key, Pair{this, ports, 0});
  if (added) {
    double narrowest = std::numeric_limits<double>::infinity();
    for_each_link(ports, [&](int link) {
      narrowest = std::min(narrowest, platform_.wiring().links()[link].bytes_per_second);
    });
    entry->second.bytes_per_second = narrowest;
  }
  return entry->second;
}

void Flows::start(const Place& from, const Place& to, double bytes, double most_bytes_per_second,
                  const Call& arrived) {
  const Flow flow{bytes, most_bytes_per_second, &arrived};
  Pair& own = pair(platform_.wiring().ports(from, to));
  bool alone = true;
  for_each_link(own.ports, [&](int link) {
    alone = alone && shared_[link] == 0 && (!owner_[link] || owner_[link] == &own);
  });
  if (alone) {
    for_each_link(own.ports, [&](int link) { owner_[link] = &own; });
    return own.add(flow);
  }
  for_each_link(own.ports, [&](int link) {
    Pair* const owner = owner_[link];
    if (!owner) return;
    for (const Flow& other : owner->take()) share(owner->ports, other);
  });
  share(own.ports, flow);
}

void Flows::share(const Ports& ports, const Flow& flow) {
  for_each_link(ports, [&](int link) { ++shared_[link]; });
  auto* const shared = new Shared{this, ports, flow.arrived};
  platform_.flow(ports.first, ports.second, flow.bytes, flow.most_bytes_per_second, shared->ended);
}

void Flows::Shared::end() {
  all->for_each_link(ports, [this](int link) { --all->shared_[link]; });
  const Call& call = *arrived;
  delete this;
  call();
}

void Flows::Pair::add(const Flow& flow) {
  advance();
  flows.push_back(flow);
  set_rates();
}

// The links are nobody's then.
std::vector<Flows::Flow> Flows::Pair::take() {
  advance();
  all->platform_.cancel(timer);
  timer = nullptr;
  all->for_each_link(ports, [this](int link) { all->owner_[link] = nullptr; });
  return std::exchange(flows, {});
}

void Flows::Pair::advance() {
  const double now = all->platform_.now();
  for (Flow& flow : flows) flow.bytes -= flow.rate * (now - since);
  since = now;
}

// Whoever is capped below an equal share leaves more to the others.
void Flows::Pair::set_rates() {
  std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
    return a.most_bytes_per_second < b.most_bytes_per_second;
  });
  double left = bytes_per_second, first = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const double share = left / static_cast<double>(flows.size() - i);
    flows[i].rate = std::min(flows[i].most_bytes_per_second, share);
    left -= flows[i].rate;
    first = std::min(first, flows[i].bytes / flows[i].rate);
  }
  if (timer) all->platform_.cancel(timer);
  timer = all->platform_.at(since + std::max(first, 0.0), Call::to<&Pair::end>(this));
}

// Of the first to arrive, and whoever has less than a picosecond left.
void Flows::Pair::end() {
  timer = nullptr;
  advance();
  const auto seconds = [](const Flow& flow) { return flow.bytes / flow.rate; };
  double first = seconds(flows[0]);
  for (const Flow& flow : flows) first = std::min(first, seconds(flow));
  const auto left = std::stable_partition(
      flows.begin(), flows.end(), [&](const Flow& flow) { return seconds(flow) <= first + 1e-12; });
  const std::vector<Flow> arrived(flows.begin(), left);
  flows.erase(flows.begin(), left);
  if (flows.empty()) {
    all->for_each_link(ports, [this](int link) { all->owner_[link] = nullptr; });
  } else {
    set_rates();
  }
  for (const Flow& flow : arrived) (*flow.arrived)();
}

}  // namespace ringspan::comm::simulated
