// SPDX-License-Identifier: Apache-2.0
#include "model/layers/gelu.hpp"

#include <cmath>
#include <numbers>

namespace ringspan::model {
namespace {

template <typename Real>
Real distribution(Real x) {
  return std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2;
}

template <typename Real>
Real density(Real x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<Real> / std::numbers::sqrt2_v<Real>;
}

}  // namespace

void gelu(const Matrix& x, const Matrix& y) {
  with_real(y.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real* const in = x.data<Real>();
    Real* const out = y.data<Real>();
    for (std::int64_t i = 0; i < y.elements(); ++i) out[i] = in[i] * distribution(in[i]);
  });
}

void gelu_backward(const Matrix& x, const Matrix& d_y, const Matrix& d_x) {
  with_real(d_y.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real *const in = x.data<Real>(), *const d_out = d_y.data<Real>();
    Real* const d_in = d_x.data<Real>();
    for (std::int64_t i = 0; i < d_y.elements(); ++i) {
      d_in[i] = d_out[i] * (distribution(in[i]) + in[i] * density(in[i]));
    }
  });
}

}  // namespace ringspan::model
