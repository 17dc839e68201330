// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ringspan::bench {

/// A published number and what a model said.
struct Comparison {
  std::string problem;  // those of one problem are ranked among each other
  double published = 0, predicted = 0;
};

/// How far a model is off. Errors are relative to what was published, or plain differences.
struct Score {
  std::size_t figures = 0;
  double mean_absolute = 0;  // MAPE, if relative
  double largest = 0;        // by absolute value, with its sign
  double bias = 0;           // mean with sign: positive, too large
  double kendall_tau = 0;    // not a number if no two published ones are to be ranked
};

double error(const Comparison& figure, bool absolute);

/// Kendall's tau counts pairs of one problem whose published numbers differ by more than 2 % of
/// the smaller: in order +1, in the wrong one -1, predicted as equal 0; divided by their number.
Score score(std::span<const Comparison> figures, bool absolute);

}  // namespace ringspan::bench
