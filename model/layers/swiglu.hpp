// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/matrix.hpp"

namespace ringspan::model {

/// y = gate sigmoid(gate) up (Shazeer 2020); all of one shape.
void swiglu(const Matrix& gate, const Matrix& up, const Matrix& y);

/// d_gate = d_y up s (1 + gate (1 - s)), d_up = d_y gate s, with s = sigmoid(gate).
void swiglu_backward(const Matrix& gate, const Matrix& up, const Matrix& d_y, const Matrix& d_gate,
                     const Matrix& d_up);

}  // namespace ringspan::model
