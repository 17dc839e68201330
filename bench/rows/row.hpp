// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "bench/ask/point.hpp"
#include "bench/judge/result.hpp"

namespace ringspan::bench {

/// One row of the CSV; without a result, `status` says why there is none.
struct Row {
  std::string machine, commit, world;
  Point point;
  int repeats = 0;
  std::optional<Result> result = {};
  std::string status = "ok";
};

}  // namespace ringspan::bench
