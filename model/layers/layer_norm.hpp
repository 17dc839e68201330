// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/matrix.hpp"

namespace ringspan::model {

/// Per row of x: n = (x - mean(x)) / sqrt(variance(x) + epsilon), y = n weight + bias (Ba, Kiros,
/// Hinton 2016). x and y [rows][features], weight and bias [1][features].
void layer_norm(const Matrix& x, const Matrix& weight, const Matrix& bias, double epsilon,
                const Matrix& y);

/// With g = d_y weight: d_x = (g - mean(g) - n mean(g n)) / sqrt(variance(x) + epsilon);
/// d_weight += sum over rows of d_y n, d_bias += sum over rows of d_y.
void layer_norm_backward(const Matrix& x, const Matrix& weight, double epsilon, const Matrix& d_y,
                         const Matrix& d_x, const Matrix& d_weight, const Matrix& d_bias);

}  // namespace ringspan::model
