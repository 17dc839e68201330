// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/bandwidth.hpp"

namespace ringspan::bench {

double value(BusFactor factor, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (factor) {
    case BusFactor::none: return 0;
    case BusFactor::one: return 1;
    case BusFactor::others: return others;
    case BusFactor::two_others: return 2 * others;
  }
  return 0;
}

Bandwidth bandwidth(BusFactor factor, int ranks, std::int64_t bytes, double seconds) {
  const double algorithm = static_cast<double>(bytes) / seconds;
  return {algorithm, algorithm * value(factor, ranks)};
}

}  // namespace ringspan::bench
