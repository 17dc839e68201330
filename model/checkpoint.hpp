// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "model/matrix.hpp"

namespace ringspan::model {

/// A matrix kept for later: where it is, or offloaded to memory of the process that the device does
/// not count. On the host device that is a copy within the same memory, as good as the accounting.
class Checkpoint {
 public:
  Checkpoint() = default;
  Checkpoint(comm::Device& device, const Matrix& matrix, bool offload);

  /// In the device's memory; a copy of its own if it was offloaded.
  Matrix matrix(comm::Device& device) const;

 private:
  Matrix kept_;  // empty if offloaded
  std::vector<std::byte> host_;
  DType dtype_ = DType::f32;
  std::int64_t rows_ = 0, columns_ = 0;
};

}  // namespace ringspan::model
