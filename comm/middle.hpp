// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <vector>

namespace ringspan::comm {

/// The upper one of two.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of some values the middle half: its mean is as robust as a median, and steadier where times have
/// two peaks.
struct Middle {
  explicit Middle(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto quarter = static_cast<std::ptrdiff_t>(values.size() / 4);
    const auto first = values.begin() + quarter, last = values.end() - quarter;
    mean = std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
    width = *std::prev(last) - *first;
  }

  double mean, width;
};

}  // namespace ringspan::comm
