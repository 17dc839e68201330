// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "attention/tensor.hpp"
#include "comm/buffer.hpp"
#include "comm/device.hpp"
#include "comm/error.hpp"

namespace ringspan::model {

using attention::DType;

/// [rows][columns] in a device's memory, packed, fp32 or fp64. Copies and parts share the memory,
/// as copies of a Buffer do. Activations have a row per token and batch entry, [tokens][batch]: so
/// a run of tokens is one run of bytes, and every layer but attention sees rows alone.
class Matrix {
 public:
  Matrix() = default;
  /// Contents unspecified.
  Matrix(comm::Device& device, DType dtype, std::int64_t rows, std::int64_t columns);
  /// Inside `buffer`, from byte `offset`.
  Matrix(comm::Buffer buffer, std::int64_t offset, DType dtype, std::int64_t rows,
         std::int64_t columns);

  explicit operator bool() const { return static_cast<bool>(buffer_); }
  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t elements() const { return rows_ * columns_; }
  std::int64_t bytes() const { return elements() * attention::element_bytes(dtype_); }

  /// `Real` is the type of dtype().
  template <typename Real>
  Real* data(std::int64_t row = 0) const {
    return reinterpret_cast<Real*>(buffer_.data() + offset_) + row * columns_;
  }

  /// Some of the rows.
  Matrix part(std::int64_t first, std::int64_t count) const;
  comm::Slice slice() const { return comm::slice(buffer_, offset_, bytes()); }

  /// As attention wants it: rows are [tokens][batch], columns [heads][head_dim].
  attention::TensorView tensor(std::int64_t batch, std::int64_t heads) const;

 private:
  comm::Buffer buffer_;
  std::int64_t offset_ = 0;
  DType dtype_ = DType::f32;
  std::int64_t rows_ = 0, columns_ = 0;
};

/// Of the same shape and dtype; contents unspecified.
Matrix like(comm::Device& device, const Matrix& matrix);

void fill(const Matrix& matrix, double value);

/// to += from; shapes are equal.
void add(const Matrix& from, const Matrix& to);

/// Calls body(Real{}) with the number type of `dtype`; invalid_argument for what models do not
/// compute in.
template <typename Body>
void with_real(DType dtype, const Body& body) {
  RINGSPAN_REQUIRE(dtype == DType::f32 || dtype == DType::f64,
                   "a model computes in fp32 or fp64, not in ", attention::name(dtype));
  if (dtype == DType::f32) {
    body(float{});
  } else {
    body(double{});
  }
}

}  // namespace ringspan::model
