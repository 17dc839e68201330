// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/matrix.hpp"

namespace ringspan::model {

/// y = x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016), exactly.
void gelu(const Matrix& x, const Matrix& y);

/// d_x = d_y (Phi(x) + x phi(x)), phi the normal density.
void gelu_backward(const Matrix& x, const Matrix& d_y, const Matrix& d_x);

}  // namespace ringspan::model
