// SPDX-License-Identifier: Apache-2.0
#include "model/linear.hpp"

#include "model/matmul.hpp"

namespace ringspan::model {

void Linear::forward(comm::Device& device, const Matrix& x, const Matrix& y) const {
  multiply({x}, {weight_.value}, y);
  device.poll();
}

Matrix Linear::forward(comm::Device& device, const Matrix& x) const {
  const Matrix y(device, x.dtype(), x.rows(), outputs());
  forward(device, x, y);
  return y;
}

void Linear::backward(comm::Device& device, const Matrix& x, const Matrix& d_y, const Matrix& d_x,
                      bool accumulate) {
  multiply(transposed(x), {d_y}, weight_.gradient, true);
  device.poll();
  multiply({d_y}, transposed(weight_.value), d_x, accumulate);
  device.poll();
}

}  // namespace ringspan::model
