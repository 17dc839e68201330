// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace ringspan::comm::simulated {

/// Log-normal factors of mean 1, the same in every run.
class Noise {
 public:
  enum class Of { kernels, messages };

  Noise(double relative_deviation, std::uint64_t seed, int rank, Of of)
      : deviation_(std::sqrt(std::log1p(relative_deviation * relative_deviation))) {
    std::seed_seq all{seed >> 32, seed, std::uint64_t(rank), std::uint64_t(of)};
    random_.seed(all);
  }

  double factor() {
    if (deviation_ == 0) return 1;
    return std::exp(deviation_ * normal_(random_) - deviation_ * deviation_ / 2);
  }

 private:
  const double deviation_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

}  // namespace ringspan::comm::simulated
