// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/ask/cluster_file.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// One row's worth of axes, in the words of the command line and the CSV. Names are empty and
/// numbers zero where the axis does not apply or nothing was said.
struct Point {
  std::string transport = "threads", device = "host", cluster, kernel = "cpu";
  std::string schedule = "zigzag", layout, pass = "forward", dtype = "fp32";
  std::int64_t ranks = 1, ranks_per_node = 0, ulysses_degree = 0, ring_degree = 0;
  std::int64_t inner_ring = 0, head_groups = 0;
  std::int64_t pretended_ranks_per_node = 0;  // what was asked for; 0: nodes are what they are
  std::string placement, all_to_all, hop = "copy", backward;
  std::int64_t sequence_length = 1, tokens_per_rank = 0, batch = 1;
  std::int64_t heads = 1, kv_heads = 0, head_dim = 64, value_dim = 0;
  std::string mask = "causal";

  bool simulated() const;
  /// "host", "gpu" or "simulated": by the transport, and where memory lives.
  std::string_view world() const;
  bool has_forward() const { return pass != "backward"; }
  bool has_backward() const { return pass != "forward"; }

  friend auto operator<=>(const Point&, const Point&) = default;
};

/// The values of one axis, and where they go.
template <typename Value>
struct Axis {
  Value Point::*member;
  std::vector<Value> values;
  std::string_view option = {};  // that gave them
};

struct Axes {
  std::vector<Axis<std::string>> names;
  std::vector<Axis<std::int64_t>> numbers;
  std::vector<std::string> models;  // each sets heads, kv_heads and head_dim; empty: the axes do
  Clusters clusters;                // that Point::cluster names
};

/// Every combination once, with what was left open filled in and axes that a schedule does not have
/// left empty; fewer ranks first, so that efficiencies find their baseline. Throws invalid_argument
/// for an axis that none of the schedules has, and for more points than anyone means. `nodes`:
/// where each process is, for transports whose ranks are processes.
std::vector<Point> points(const Axes& axes, std::span<const int> nodes = {});

/// Fills in what a point leaves open, and clears what its schedule does not have. Of `axes` it
/// takes the clusters.
void settle(Point& point, const Axes& axes, std::span<const int> nodes = {});

/// What the attention library is asked for. They throw invalid_argument for an illegal point.
attention::ScheduleOptions schedule_options(const Point& point);

}  // namespace ringspan::bench
