// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/validate/score.hpp"
#include "bench/validate/table.hpp"

namespace ringspan::bench {

/// A published figure beside what both models say of it.
struct ValidatedFigure {
  FigureName name;
  std::string problem, metric;
  double published = 0, simulated = 0, naive = 0;
  Mark mark = Mark::prediction;  // calibration: an anchor, which no score counts
};

/// What became of a table.
struct Validation {
  TableEntry entry;
  std::vector<ValidatedFigure> figures;
  std::vector<Omission> omissions;
  std::vector<Constant> constants;

  std::vector<std::string> metrics() const;  // of figures that scores count
  Score score(const std::string& metric, double ValidatedFigure::*model) const;
};

/// Simulates all that `table`, which the entry has read, predicts. What a model refuses becomes an
/// omission; other failures are thrown.
Validation validate(const TableEntry& entry, Table table, Simulator& described, Simulator& naive);

}  // namespace ringspan::bench
