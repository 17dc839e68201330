// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "model/matrix.hpp"

namespace ringspan::model {

enum class Turn { forward, backward };

/// Rotary positions (Su et al. 2021), in place: in every head of row r the pair (i, i + head_dim/2)
/// turns by positions[r] * base^(-2i/head_dim). Angles are fp64, so that neighbours differ at any
/// position. The gradient goes back by the opposite turn. x [rows][heads * head_dim], even
/// head_dim.
void rotate(const Matrix& x, std::int64_t head_dim, std::span<const std::int64_t> positions,
            double base, Turn turn);

}  // namespace ringspan::model
