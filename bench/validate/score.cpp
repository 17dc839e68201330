// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/score.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringspan::bench {
namespace {

constexpr double kLeastDifference = 0.02;  // of what is ranked; less is noise

double kendall_tau(std::span<const Comparison> figures) {
  double agreement = 0, pairs = 0;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Comparison &a = figures[i], &b = figures[j];
      const double difference = a.published - b.published;
      const double smaller = std::min(std::abs(a.published), std::abs(b.published));
      if (a.problem != b.problem || std::abs(difference) <= kLeastDifference * smaller) continue;
      const double predicted = a.predicted - b.predicted;
      ++pairs;
      if (predicted != 0) agreement += (predicted > 0) == (difference > 0) ? 1 : -1;
    }
  }
  return pairs > 0 ? agreement / pairs : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double error(const Comparison& figure, bool absolute) {
  return (figure.predicted - figure.published) / (absolute ? 1 : std::abs(figure.published));
}

Score score(std::span<const Comparison> figures, bool absolute) {
  Score score;
  score.figures = figures.size();
  if (figures.empty()) return score;
  for (const Comparison& figure : figures) {
    const double off = error(figure, absolute);
    score.mean_absolute += std::abs(off);
    score.bias += off;
    if (std::abs(off) > std::abs(score.largest)) score.largest = off;
  }
  score.mean_absolute /= static_cast<double>(figures.size());
  score.bias /= static_cast<double>(figures.size());
  score.kendall_tau = kendall_tau(figures);
  return score;
}

}  // namespace ringspan::bench
