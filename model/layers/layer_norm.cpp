// SPDX-License-Identifier: Apache-2.0
#include "model/layers/layer_norm.hpp"

#include <cmath>
#include <vector>

namespace ringspan::model {
namespace {

struct Moments {
  double mean, inverse_deviation;
};

template <typename Real>
Moments moments(const Real* x, std::int64_t features, double epsilon) {
  double mean = 0, squares = 0;
  for (std::int64_t i = 0; i < features; ++i) mean += x[i];
  mean /= static_cast<double>(features);
  for (std::int64_t i = 0; i < features; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(features) + epsilon)};
}

}  // namespace

void layer_norm(const Matrix& x, const Matrix& weight, const Matrix& bias, double epsilon,
                const Matrix& y) {
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real* const w = weight.data<Real>();
    const Real* const b = bias.data<Real>();
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const Real* const in = x.data<Real>(row);
      Real* const out = y.data<Real>(row);
      const Moments of = moments(in, x.columns(), epsilon);
      for (std::int64_t i = 0; i < x.columns(); ++i) {
        out[i] = static_cast<Real>((in[i] - of.mean) * of.inverse_deviation * w[i] + b[i]);
      }
    }
  });
}

void layer_norm_backward(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& d_y,
                         const Matrix& d_x, const Matrix& d_weight, const Matrix& d_bias) {
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const std::int64_t features = x.columns();
    const Real* const w = weight.data<Real>();
    std::vector<double> d_w(features), d_b(features);
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const Real* const in = x.data<Real>(row);
      const Real* const d_out = d_y.data<Real>(row);
      Real* const d_in = d_x.data<Real>(row);
      const Moments of = moments(in, features, epsilon);
      const auto n = [&](std::int64_t i) { return (in[i] - of.mean) * of.inverse_deviation; };
      double mean_g = 0, mean_gn = 0;
      for (std::int64_t i = 0; i < features; ++i) {
        d_w[i] += d_out[i] * n(i);
        d_b[i] += d_out[i];
        mean_g += double{d_out[i]} * w[i];
        mean_gn += double{d_out[i]} * w[i] * n(i);
      }
      mean_g /= static_cast<double>(features);
      mean_gn /= static_cast<double>(features);
      for (std::int64_t i = 0; i < features; ++i) {
        const double centred = double{d_out[i]} * w[i] - mean_g - n(i) * mean_gn;
        d_in[i] = static_cast<Real>(centred * of.inverse_deviation);
      }
    }
    Real* const total_w = d_weight.data<Real>();
    Real* const total_b = d_bias.data<Real>();
    for (std::int64_t i = 0; i < features; ++i) {
      total_w[i] += static_cast<Real>(d_w[i]);
      total_b[i] += static_cast<Real>(d_b[i]);
    }
  });
}

}  // namespace ringspan::model
