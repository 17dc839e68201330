// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/matrix.hpp"

namespace ringspan::model {

/// Per row of x: y = x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019). x and y
/// [rows][features], weight [1][features].
void rms_norm(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& y);

/// With n = x / sqrt(mean(x^2) + epsilon) and g = d_y weight:
/// d_x = (g - n mean(g n)) / sqrt(mean(x^2) + epsilon); d_weight += sum over rows of d_y n.
void rms_norm_backward(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& d_y,
                       const Matrix& d_x, const Matrix& d_weight);

}  // namespace ringspan::model
