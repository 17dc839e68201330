// SPDX-License-Identifier: Apache-2.0
#include "model/layers/rms_norm.hpp"

#include <cmath>
#include <vector>

namespace ringspan::model {
namespace {

template <typename Real>
double inverse_rms(const Real* x, std::int64_t features, double epsilon) {
  double squares = 0;
  for (std::int64_t i = 0; i < features; ++i) squares += double{x[i]} * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(features) + epsilon);
}

}  // namespace

void rms_norm(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& y) {
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real* const w = weight.data<Real>();
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const Real* const in = x.data<Real>(row);
      Real* const out = y.data<Real>(row);
      const auto scale = static_cast<Real>(inverse_rms(in, x.columns(), epsilon));
      for (std::int64_t i = 0; i < x.columns(); ++i) out[i] = in[i] * scale * w[i];
    }
  });
}

void rms_norm_backward(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& d_y,
                       const Matrix& d_x, const Matrix& d_weight) {
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const std::int64_t features = x.columns();
    const Real* const w = weight.data<Real>();
    std::vector<double> d_w(features);
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const Real* const in = x.data<Real>(row);
      const Real* const d_out = d_y.data<Real>(row);
      Real* const d_in = d_x.data<Real>(row);
      const double scale = inverse_rms(in, features, epsilon);
      double mean = 0;  // of g n
      for (std::int64_t i = 0; i < features; ++i) {
        const double d_weighted = d_out[i] * (in[i] * scale);
        d_w[i] += d_weighted;
        mean += d_weighted * w[i];
      }
      mean /= static_cast<double>(features);
      for (std::int64_t i = 0; i < features; ++i) {
        d_in[i] = static_cast<Real>((double{d_out[i]} * w[i] - in[i] * scale * mean) * scale);
      }
    }
    Real* const total = d_weight.data<Real>();
    for (std::int64_t i = 0; i < features; ++i) total[i] += static_cast<Real>(d_w[i]);
  });
}

}  // namespace ringspan::model
