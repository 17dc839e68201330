// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/published_row.hpp"
#include "bench/validate/simulator.hpp"

namespace ringspan::bench {

/// What a figure, or a constant, owes to the table that it is compared with.
enum class Mark {
  calibration,  // taken from the table's anchors, which are not predicted
  fit,          // chosen with the table's other rows in view
  prediction,   // nothing: from a cluster file, a kernel curve, or derived
};
std::string_view name(Mark mark);

/// One published number and how it is predicted. An Error that `predict` throws is the reason to
/// leave it out.
struct Figure {
  FigureName name;      // unique in its table
  std::string problem;  // figures of one problem and metric are ranked among each other
  std::string metric;   // with its unit: "forward, iterations/s"
  double published = 0;
  std::function<double(Simulator&)> predict = {};
  Mark mark = Mark::prediction;
};

/// A row, or a number of one, that is not predicted.
struct Omission {
  FigureName name;
  std::string reason;  // rows of one reason are printed together
};

/// A number that predictions rest on. `factor`, of each model, is printed in front of the value.
struct Constant {
  std::string name, value;
  Mark mark = Mark::prediction;
  std::string source;
  std::function<double(Simulator&)> factor = {};
};

/// What a table's rows say. What anchors anything is in `calibrations`, or a figure of that mark;
/// no score counts it.
struct Table {
  std::vector<Calibration> calibrations = {};
  std::vector<Figure> figures = {};
  std::vector<Omission> omissions = {};
  std::vector<Constant> constants = {};
};

/// A published table that can be predicted, wherever its rows are found.
struct TableEntry {
  std::string_view name;     // for --table
  std::string_view summary;  // one line: what was measured, on what
  bool (*has)(const PublishedRow&);
  Table (*read)(const std::vector<PublishedRow>&);  // the rows that it has, in order
  bool absolute = false;  // errors are differences (of ratios and shares) instead of relative
  bool simulated = true;  // at least in part; else a closed form alone
  bool has_naive = true;
};

/// All of them; a row belongs to the first that has it.
std::span<const TableEntry> tables();

}  // namespace ringspan::bench
