// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/point.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "bench/ask/models.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

using attention::schedule_entry;
using attention::ScheduleEntry;

template <typename Value, typename Apply>
void multiply(std::vector<Point>& points, const std::vector<Value>& values, const Apply& apply) {
  std::vector<Point> product;
  product.reserve(points.size() * values.size());
  for (const Point& point : points) {
    for (const Value& value : values) apply(product.emplace_back(point), value);
  }
  points = std::move(product);
}

/// Each takes some KiB, and more are a slip of the pen.
void require_countable(const Axes& axes) {
  constexpr std::size_t kMostPoints = 200'000;
  std::size_t product = 1;
  std::string factors;
  const auto multiply_by = [&](std::string_view option, std::size_t values) {
    if (values < 2) return;
    product = std::min(product, kMostPoints + 1) * values;
    factors += concat(factors.empty() ? "" : ", ", option, " ", values);
  };
  for (const auto& axis : axes.numbers) multiply_by(axis.option, axis.values.size());
  multiply_by("--model", axes.models.size());
  for (const auto& axis : axes.names) multiply_by(axis.option, axis.values.size());
  RINGSPAN_REQUIRE(product <= kMostPoints, "the values of ", factors, " multiply to more than ",
                   kMostPoints, " points; give fewer, or several sweeps");
}

std::int64_t global_tokens(const Point& point) {
  std::int64_t tokens = 0;
  RINGSPAN_REQUIRE(!__builtin_mul_overflow(point.tokens_per_rank, point.ranks, &tokens),
                   "--tokens-per-rank: ", point.tokens_per_rank, " tokens on ", point.ranks,
                   " ranks do not fit in 64 bits");
  return tokens;
}

/// Ranks on the node that has most of them.
std::int64_t ranks_per_node(const Point& point, const Axes& axes, std::span<const int> nodes) {
  if (const auto cluster = axes.clusters.find(point.cluster); cluster != axes.clusters.end()) {
    return std::min<std::int64_t>(point.ranks, cluster->second.gpus_per_node);
  }
  const auto ranks = static_cast<std::size_t>(point.ranks);
  if (!comm::backend(point.transport).process || ranks > nodes.size()) return point.ranks;
  std::map<int, std::int64_t> on_node;
  for (const int node : nodes.first(ranks)) ++on_node[node];
  return std::max_element(on_node.begin(), on_node.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

/// What goes without saying in one world and not in the others.
void settle_world(Point& point) {
  struct World {
    std::string_view name, device, kernel, dtype;
  };
  constexpr World kWorlds[] = {{"host", "host", "cpu", "fp32"},
                               {"gpu", "cuda", "cuda", "bf16"},
                               {"simulated", "simulated", "modelled", "bf16"}};
  if (point.simulated()) point.device.clear();
  const auto& world = *std::find_if(std::begin(kWorlds), std::end(kWorlds),
                                    [&](const World& w) { return w.name == point.world(); });
  if (point.device.empty()) point.device = world.device;
  if (!point.simulated()) point.cluster.clear();
  if (point.kernel.empty()) point.kernel = world.kernel;
  if (point.dtype.empty()) point.dtype = world.dtype;
}

/// An axis that is dropped from some rows belongs to others; dropped from all it is a mistake.
void require_used(const Axes& axes, const std::vector<Point>& points) {
  const auto require = [&](std::string_view option, bool given, auto ScheduleEntry::*takes) {
    const bool used = std::any_of(points.begin(), points.end(), [takes](const Point& point) {
      return schedule_entry(point.schedule).*takes != 0;
    });
    RINGSPAN_REQUIRE(!given || used, option, ": none of the schedules of this sweep has it");
  };
  const bool real = std::any_of(points.begin(), points.end(),
                                [](const Point& point) { return !point.simulated(); });
  for (const Axis<std::string>& axis : axes.names) {
    RINGSPAN_REQUIRE(real || axis.member != &Point::device,
                     "--device: simulated ranks have the GPUs of --cluster; leave it out");
    require("--layout", axis.member == &Point::layout, &ScheduleEntry::takes_layout);
    require("--placement", axis.member == &Point::placement, &ScheduleEntry::takes_ulysses_degree);
    require("--all-to-all", axis.member == &Point::all_to_all, &ScheduleEntry::takes_all_to_all);
    require("--backward", axis.member == &Point::backward, &ScheduleEntry::takes_backward);
  }
  for (const Axis<std::int64_t>& axis : axes.numbers) {
    require("--ulysses-degree", axis.member == &Point::ulysses_degree,
            &ScheduleEntry::takes_ulysses_degree);
    require("--inner-ring", axis.member == &Point::inner_ring, &ScheduleEntry::takes_inner_ring);
    require("--head-groups", axis.member == &Point::head_groups, &ScheduleEntry::head_groups);
  }
}

/// The library refuses illegal ones, and lists the legal; these would not arrive as they are.
int degree(const Point& point, std::string_view what, std::int64_t value) {
  RINGSPAN_REQUIRE(std::in_range<int>(value), point.schedule, ": ", what, " of ", value,
                   " does not divide ", point.ranks, " ranks");
  return static_cast<int>(value);
}

}  // namespace

bool Point::simulated() const { return comm::backend(transport).world == "simulated"; }

std::string_view Point::world() const {
  return device == "cuda" ? "gpu" : comm::backend(transport).world;
}

void settle(Point& point, const Axes& axes, std::span<const int> nodes) {
  settle_world(point);
  const ScheduleEntry& schedule = schedule_entry(point.schedule);
  if (point.tokens_per_rank > 0) point.sequence_length = global_tokens(point);
  if (point.kv_heads == 0) point.kv_heads = point.heads;
  if (point.value_dim == 0) point.value_dim = point.head_dim;
  point.pretended_ranks_per_node = std::min(point.ranks_per_node, point.ranks);
  point.ranks_per_node = point.pretended_ranks_per_node > 0 ? point.pretended_ranks_per_node
                                                            : ranks_per_node(point, axes, nodes);

  if (!schedule.takes_layout || point.layout.empty()) {
    point.layout = attention::name(schedule.layout);
  }
  const std::int64_t whole_world = schedule.takes_all_to_all ? point.ranks : 1;
  if (!schedule.takes_ulysses_degree) point.ulysses_degree = whole_world;
  if (point.ulysses_degree == 0) point.ulysses_degree = point.ranks_per_node;
  const bool divides = point.ranks % point.ulysses_degree == 0;
  point.ring_degree = divides ? point.ranks / point.ulysses_degree : 0;
  if (point.placement.empty()) point.placement = "ulysses_inner";
  if (!schedule.takes_ulysses_degree) point.placement.clear();
  if (point.all_to_all.empty()) point.all_to_all = "direct";
  if (!schedule.takes_all_to_all) point.all_to_all.clear();
  if (!schedule.takes_inner_ring) point.inner_ring = 0;
  if (schedule.takes_inner_ring && !schedule.takes_ulysses_degree && point.inner_ring == 0) {
    point.inner_ring = point.ranks_per_node;  // usp has one ring unless it is asked for two
  }
  if (schedule.head_groups == 0) point.head_groups = 0;
  if (schedule.head_groups > 1 && point.head_groups == 0) point.head_groups = schedule.head_groups;
  if (!schedule.takes_backward || point.backward.empty()) point.backward = "kv";
  if (!point.has_backward()) point.backward.clear();
}

std::vector<Point> points(const Axes& axes, std::span<const int> nodes) {
  require_countable(axes);
  std::vector<Point> product(1);
  product[0].device.clear();
  product[0].kernel.clear();
  product[0].dtype.clear();
  for (const auto& axis : axes.numbers) {
    multiply(product, axis.values,
             [&](Point& point, std::int64_t value) { point.*axis.member = value; });
  }
  if (!axes.models.empty()) {
    multiply(product, axes.models, [](Point& point, const std::string& name) {
      const Model& shape = model(name);
      point.heads = shape.heads;
      point.kv_heads = shape.kv_heads;
      point.head_dim = shape.head_dim;
    });
  }
  for (const auto& axis : axes.names) {
    multiply(product, axis.values,
             [&](Point& point, const std::string& value) { point.*axis.member = value; });
  }
  require_used(axes, product);

  std::set<Point> seen;
  std::vector<Point> distinct;
  for (Point& point : product) {
    settle(point, axes, nodes);
    if (seen.insert(point).second) distinct.push_back(std::move(point));
  }
  std::stable_sort(distinct.begin(), distinct.end(),
                   [](const Point& a, const Point& b) { return a.ranks < b.ranks; });
  return distinct;
}

attention::ScheduleOptions schedule_options(const Point& point) {
  const ScheduleEntry& schedule = schedule_entry(point.schedule);
  attention::ScheduleOptions options;
  if (schedule.takes_layout) options.layout = attention::layout_kind(point.layout);
  if (schedule.takes_ulysses_degree) {
    options.ulysses_degree = degree(point, "a ulysses_degree", point.ulysses_degree);
  }
  options.inner_ring = degree(point, "an inner_ring", point.inner_ring);
  options.head_groups = static_cast<int>(point.head_groups);
  if (!point.backward.empty()) options.backward = attention::backward_form(point.backward);
  if (!point.placement.empty()) options.placement = attention::placement(point.placement);
  if (point.all_to_all == "hierarchical") {
    options.all_to_all = comm::AllToAllAlgorithm::hierarchical;
  } else if (point.all_to_all == "automatic") {
    options.all_to_all = comm::AllToAllAlgorithm::automatic;
  }
  return options;
}

}  // namespace ringspan::bench
