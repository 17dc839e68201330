// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/table.hpp"

namespace ringspan::bench {

/// A published speed of attention alone, in iterations per second.
struct OperatorFigure {
  FigureName name;
  std::vector<Point> points;  // iterations are these in turn
  double iterations_per_second = 0;
  std::string metric = "iterations/s";
  std::string problem;       // what is computed, and by which program; however it is distributed
  std::string program = {};  // that anchors must share, if a system has several
  std::string kernel = {};   // whose anchors say how fast attention is; empty: the problem
  bool anchor = false;
  bool bare = false;  // see Anchor
  Mark mark = Mark::prediction;
};

/// Anchors become calibrations, the others predictions at the speed that the anchors of their
/// kernel say: those of the same cluster, mask and library. K and V are two messages in all of
/// these programs.
void add(Table& table, const std::vector<OperatorFigure>& figures);

/// The cluster that a text about hardware means: "cluster:NAME" one that comes with the program, or
/// a file. Throws invalid_argument if it is none.
std::string cluster_of(const PublishedRow& row);

/// A point of that many GPUs of a cluster, with the usual kernels in 16 bits and a causal mask.
Point operator_point(const std::string& cluster, std::int64_t gpus);

/// What predictions on a cluster take from its description.
std::vector<Constant> constants_of(const std::string& cluster);

/// The same of all clusters that these rows are on, and what attention alone takes from published
/// kernels.
std::vector<Constant> operator_constants(const std::vector<PublishedRow>& rows);

}  // namespace ringspan::bench
