// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// Which rank sees any token of which, from positions alone.
class Visibility {
 public:
  Visibility(const Problem& problem, LayoutKind layout, int ranks);

  int ranks() const { return static_cast<int>(positions_.size()); }
  std::int64_t tokens(int rank) const { return std::ssize(positions_[rank]); }
  bool sees(int rank, int owner) const;

 private:
  std::int64_t left_, right_;
  std::vector<std::int64_t> document_ends_;           // ascending
  std::vector<std::vector<std::int64_t>> positions_;  // [rank], ascending
};

}  // namespace ringspan::attention
