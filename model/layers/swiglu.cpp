// SPDX-License-Identifier: Apache-2.0
#include "model/layers/swiglu.hpp"

#include <cmath>

namespace ringspan::model {
namespace {

template <typename Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

void swiglu(const Matrix& gate, const Matrix& up, const Matrix& y) {
  with_real(y.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real *const g = gate.data<Real>(), *const u = up.data<Real>();
    Real* const out = y.data<Real>();
    for (std::int64_t i = 0; i < y.elements(); ++i) out[i] = g[i] * sigmoid(g[i]) * u[i];
  });
}

void swiglu_backward(const Matrix& gate, const Matrix& up, const Matrix& d_y, const Matrix& d_gate,
                     const Matrix& d_up) {
  with_real(d_y.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real *const g = gate.data<Real>(), *const u = up.data<Real>();
    const Real* const d_out = d_y.data<Real>();
    Real *const d_g = d_gate.data<Real>(), *const d_u = d_up.data<Real>();
    for (std::int64_t i = 0; i < d_y.elements(); ++i) {
      const Real s = sigmoid(g[i]);
      d_g[i] = d_out[i] * u[i] * s * (1 + g[i] * (1 - s));
      d_u[i] = d_out[i] * g[i] * s;
    }
  });
}

}  // namespace ringspan::model
