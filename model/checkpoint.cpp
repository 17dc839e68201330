// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.hpp"

namespace ringspan::model {

Checkpoint::Checkpoint(comm::Device& device, const Matrix& matrix, bool offload)
    : dtype_(matrix.dtype()), rows_(matrix.rows()), columns_(matrix.columns()) {
  if (!offload) {
    kept_ = matrix;
    return;
  }
  host_.resize(matrix.bytes());
  const comm::Buffer borrowed(host_.data(), matrix.bytes(), {});
  device.copy(comm::whole(borrowed), matrix.slice());
}

Matrix Checkpoint::matrix(comm::Device& device) const {
  if (kept_) return kept_;
  const Matrix restored(device, dtype_, rows_, columns_);
  const comm::Buffer borrowed(const_cast<std::byte*>(host_.data()), restored.bytes(), {});
  device.copy(restored.slice(), comm::whole(borrowed));
  return restored;
}

}  // namespace ringspan::model
