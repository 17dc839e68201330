// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "model/parameters.hpp"

namespace ringspan::model {

/// y = x W on this rank, W [inputs][outputs]. In a tensor group W is cut by columns
/// (column-parallel: x is gathered before, y has this rank's outputs) or by rows (row-parallel: x
/// has this rank's inputs, and y is this rank's share of a sum over the group). TensorGroup does
/// both exchanges.
class Linear {
 public:
  Linear(Parameters& parameters, std::string name, std::int64_t inputs, std::int64_t outputs,
         Cut cut, double deviation)
      : weight_(parameters.add({std::move(name), inputs, outputs, cut, {0, deviation}})) {}

  std::int64_t inputs() const { return weight_.value.rows(); }  // of this rank
  std::int64_t outputs() const { return weight_.value.columns(); }

  void forward(comm::Device& device, const Matrix& x, const Matrix& y) const;
  Matrix forward(comm::Device& device, const Matrix& x) const;

  /// W' += x^T d_y. Either d_x = d_y W^T, or, to add up the gradients of layers that share x, d_x
  /// +=.
  void backward(comm::Device& device, const Matrix& x, const Matrix& d_y, const Matrix& d_x,
                bool accumulate = false);

 private:
  Parameter& weight_;
};

}  // namespace ringspan::model
