// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/matrix.hpp"

namespace ringspan::model {

/// A factor of a product, as it is stored or transposed.
struct Factor {
  const Matrix& matrix;
  bool transposed = false;

  std::int64_t rows() const { return transposed ? matrix.columns() : matrix.rows(); }
  std::int64_t columns() const { return transposed ? matrix.rows() : matrix.columns(); }
};
inline Factor transposed(const Matrix& matrix) { return {matrix, true}; }

/// to = a b, or to += a b. Of matching shapes and one dtype; `to` overlaps neither.
void multiply(const Factor& a, const Factor& b, const Matrix& to, bool accumulate = false);

}  // namespace ringspan::model
