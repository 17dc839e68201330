// SPDX-License-Identifier: Apache-2.0
#include "model/layers/cross_entropy.hpp"

#include <algorithm>
#include <cmath>

namespace ringspan::model {
namespace {

/// The row's loss; the row becomes weight times its gradient.
template <typename Real>
double row_loss(Real* logits, std::int64_t vocabulary, std::int64_t label, double weight) {
  const double max = *std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (std::int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - max);
  const double lse = max + std::log(sum), loss = lse - logits[label];
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    const double probability = std::exp(logits[i] - lse);
    logits[i] = static_cast<Real>(weight * (probability - (i == label ? 1 : 0)));
  }
  return loss;
}

}  // namespace

LossSum cross_entropy(const Matrix& logits, std::span<const std::int64_t> labels,
                      std::span<const float> weights) {
  LossSum total;
  with_real(logits.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      Real* const values = logits.data<Real>(row);
      if (labels[row] == kIgnoredLabel) {
        std::fill_n(values, logits.columns(), Real{0});
        continue;
      }
      const double weight = weights.empty() ? 1.0 : weights[row];
      total.sum += weight * row_loss(values, logits.columns(), labels[row], weight);
      ++total.count;
    }
  });
  return total;
}

}  // namespace ringspan::model
