// SPDX-License-Identifier: Apache-2.0
#include "model/bias.hpp"

namespace ringspan::model {

void Bias::forward(const Matrix& y) const {
  for (std::int64_t row = 0; row < y.rows(); ++row) add(bias_.value, y.part(row, 1));
}

void Bias::backward(const Matrix& d_y) {
  for (std::int64_t row = 0; row < d_y.rows(); ++row) add(d_y.part(row, 1), bias_.gradient);
}

}  // namespace ringspan::model
