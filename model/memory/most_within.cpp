// SPDX-License-Identifier: Apache-2.0
#include "model/memory/most_within.hpp"

namespace ringspan::model {

std::int64_t most_within(double limit, const std::function<double(std::int64_t)>& bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t fits = 0, too_many = 1;
  while (too_many < kMost && bytes(too_many) <= limit) {
    fits = too_many;
    too_many *= 2;
  }
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (bytes(middle) <= limit ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace ringspan::model
