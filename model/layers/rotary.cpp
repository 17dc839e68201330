// SPDX-License-Identifier: Apache-2.0
#include "model/layers/rotary.hpp"

#include <cmath>
#include <vector>

namespace ringspan::model {
namespace {

template <typename Real>
struct Rotation {
  Real cosine, sine;
};

template <typename Real>
void rotate_head(Real* head, const std::vector<Rotation<Real>>& rotations) {
  const auto half = static_cast<std::int64_t>(rotations.size());
  for (std::int64_t i = 0; i < half; ++i) {
    const Real a = head[i], b = head[i + half];
    head[i] = a * rotations[i].cosine - b * rotations[i].sine;
    head[i + half] = a * rotations[i].sine + b * rotations[i].cosine;
  }
}

}  // namespace

void rotate(const Matrix& x, std::int64_t head_dim, std::span<const std::int64_t> positions,
            double base, Turn turn) {
  const std::int64_t half = head_dim / 2;
  std::vector<double> frequencies(half);
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies[i] = std::pow(base, -static_cast<double>(2 * i) / static_cast<double>(head_dim));
    if (turn == Turn::backward) frequencies[i] = -frequencies[i];
  }
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    std::vector<Rotation<Real>> rotations(half);
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(positions[row]) * frequencies[i];
        rotations[i] = {static_cast<Real>(std::cos(angle)), static_cast<Real>(std::sin(angle))};
      }
      Real* const heads = x.data<Real>(row);
      for (std::int64_t at = 0; at < x.columns(); at += head_dim)
        rotate_head(heads + at, rotations);
    }
  });
}

}  // namespace ringspan::model
