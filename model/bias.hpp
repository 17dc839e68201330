// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "model/parameters.hpp"

namespace ringspan::model {

/// y += b in every row. Cut by columns behind a column-parallel Linear; whole behind a row-parallel
/// one, where it is added once, to the sum over the group.
class Bias {
 public:
  Bias(Parameters& parameters, std::string name, std::int64_t features, Cut cut)
      : bias_(parameters.add({std::move(name), 1, features, cut, {}})) {}

  void forward(const Matrix& y) const;
  /// b' += the sum of d_y's rows.
  void backward(const Matrix& d_y);

 private:
  Parameter& bias_;
};

}  // namespace ringspan::model
