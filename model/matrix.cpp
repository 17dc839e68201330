// SPDX-License-Identifier: Apache-2.0
#include "model/matrix.hpp"

#include <algorithm>

namespace ringspan::model {

Matrix::Matrix(comm::Device& device, DType dtype, std::int64_t rows, std::int64_t columns)
    : Matrix(device.allocate(rows * columns * attention::element_bytes(dtype)), 0, dtype, rows,
             columns) {}

Matrix::Matrix(comm::Buffer buffer, std::int64_t offset, DType dtype, std::int64_t rows,
               std::int64_t columns)
    : buffer_(std::move(buffer)), offset_(offset), dtype_(dtype), rows_(rows), columns_(columns) {
  comm::require_inside(slice());
}

Matrix Matrix::part(std::int64_t first, std::int64_t count) const {
  return {buffer_, offset_ + first * columns_ * attention::element_bytes(dtype_), dtype_, count,
          columns_};
}

attention::TensorView Matrix::tensor(std::int64_t batch, std::int64_t heads) const {
  const std::int64_t head_dim = columns_ / heads;
  auto view = attention::TensorView::packed(buffer_.data() + offset_, dtype_, batch, rows_ / batch,
                                            heads, head_dim);
  view.batch_stride = columns_;
  view.token_stride = batch * columns_;
  return view;
}

Matrix like(comm::Device& device, const Matrix& matrix) {
  return {device, matrix.dtype(), matrix.rows(), matrix.columns()};
}

void fill(const Matrix& matrix, double value) {
  with_real(matrix.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    std::fill_n(matrix.data<Real>(), matrix.elements(), static_cast<Real>(value));
  });
}

void add(const Matrix& from, const Matrix& to) {
  with_real(to.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const Real* const source = from.data<Real>();
    Real* const sum = to.data<Real>();
    for (std::int64_t i = 0; i < to.elements(); ++i) sum[i] += source[i];
  });
}

}  // namespace ringspan::model
