// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "bench/rows/row.hpp"

namespace ringspan::bench {

/// Tells a person how far the sweep is: a line per finished row on standard output, and on a
/// terminal a last line that says what is being measured and how long the rest may take.
class Progress {
 public:
  /// `alone`: no other process takes part.
  Progress(std::size_t total, bool alone);

  void begin(const Point& point);
  void end(const Row& row);

  /// Before anybody else prints.
  void clear_line() const;

 private:
  std::size_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace ringspan::bench
