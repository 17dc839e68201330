// SPDX-License-Identifier: Apache-2.0
#include "model/layers/embedding.hpp"

namespace ringspan::model {

void look_up(const Matrix& table, std::span<const std::int64_t> indices, const Matrix& x) {
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    add(table.part(indices[row], 1), x.part(row, 1));
  }
}

void look_up_backward(const Matrix& d_x, std::span<const std::int64_t> indices,
                      const Matrix& d_table) {
  for (std::int64_t row = 0; row < d_x.rows(); ++row) {
    add(d_x.part(row, 1), d_table.part(indices[row], 1));
  }
}

}  // namespace ringspan::model
