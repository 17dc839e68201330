// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "model/matrix.hpp"

namespace ringspan::model {

/// x[r] += table[indices[r]]. table [entries][features], x [rows][features].
void look_up(const Matrix& table, std::span<const std::int64_t> indices, const Matrix& x);

/// d_table[indices[r]] += d_x[r], in the order of the rows.
void look_up_backward(const Matrix& d_x, std::span<const std::int64_t> indices,
                      const Matrix& d_table);

}  // namespace ringspan::model
