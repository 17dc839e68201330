// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/cuda/attention_arguments.hpp"
#include "attention/kernels/cuda/warp.cuh"

// Matrices of 16-bit elements in shared memory as operands of tensor cores, and the way there.
namespace ringspan::attention::cuda {

constexpr int kThreads = 128;  // of each block: four warps
constexpr int kRows = 64;      // that stay with a block: 16 per warp
constexpr float kLog2e = 1.44269504088896340736f;

/// Rows that pass by in one step: as many as leave the registers for the sums.
template <int kDim>
constexpr int kStep = kDim <= 64    ? 64
                      : kDim <= 128 ? 32
                                    : 16;

/// kCount rows of up to kDim elements. The rows are 16 bytes apart modulo 128, so that the eight
/// rows of an 8x8 matrix lie in different banks.
template <int kCount, int kDim>
struct Matrix {
  static constexpr int kPitch = kDim + 8;
  std::uint16_t elements[kCount * kPitch];

  /// For the left operand: 16 rows from `row`, 16 columns from `column`.
  RINGSPAN_DEVICE void left(int row, int column, std::uint32_t (&to)[4]) const {
    const int lane = thread_index() % 32;
    load_matrices(&elements[(row + lane % 16) * kPitch + column + lane / 16 * 8], to);
  }
  /// For two right operands side by side, of the transposed matrix: 16 columns from `column`,
  /// which are summed over, of 8 rows from `row` (to[0], to[1]) and the next 8 (to[2], to[3]).
  RINGSPAN_DEVICE void right_of_rows(int row, int column, std::uint32_t (&to)[4]) const {
    const int lane = thread_index() % 32;
    load_matrices(&elements[(row + lane / 16 * 8 + lane % 8) * kPitch + column + lane / 8 % 2 * 8],
                  to);
  }
  /// The same of the matrix itself: 16 rows from `row` are summed over, of 8 and 8 columns.
  RINGSPAN_DEVICE void right_of_columns(int row, int column, std::uint32_t (&to)[4]) const {
    const int lane = thread_index() % 32;
    load_transposed(&elements[(row + lane % 16) * kPitch + column + lane / 16 * 8], to);
  }
};

/// Starts to bring rows first + n * step, n < kCount, of one batch and head into shared memory, by
/// all threads of the block; zeros for n >= count and from column dim on to the next multiple
/// of 16.
template <int kCount, int kDim>
RINGSPAN_DEVICE void bring_rows(const Strided<const void>& from, std::int64_t start,
                                std::int64_t token_step, std::int64_t count, int dim, bool aligned,
                                Matrix<kCount, kDim>& to) {
  const auto* source = static_cast<const std::uint16_t*>(from.data) + start;
  const std::int64_t pitch = from.token_stride * token_step;
  const int vectors = (dim + 15) / 16 * 2;  // of 8 elements, in a row
  for (int n = thread_index(); n < kCount * vectors; n += kThreads) {
    const int row = n / vectors, column = n % vectors * 8;
    std::uint16_t* into = &to.elements[row * Matrix<kCount, kDim>::kPitch + column];
    if (aligned) {
      const bool present = row < count && column < dim;
      copy_async(into, present ? source + row * pitch + column : source, present);
    } else {
      for (int e = 0; e < 8; ++e) {
        into[e] = row < count && column + e < dim ? source[row * pitch + column + e] : 0;
      }
    }
  }
}

/// sums[n] += 16 rows of `left` from `row`, times the rows of `right` transposed, 8 of them per n.
template <Half kHalf, int kCount, int kRight, int kDim>
RINGSPAN_DEVICE void multiply_rows(const Matrix<kCount, kDim>& left, int row,
                                   const Matrix<kRight, kDim>& right, int dim,
                                   float (&sums)[kRight / 8][4]) {
  RINGSPAN_UNROLL
  for (int k = 0; k < kDim; k += 16) {
    if (k >= dim) break;
    std::uint32_t a[4];
    left.left(row, k, a);
    RINGSPAN_UNROLL
    for (int n = 0; n < kRight / 16; ++n) {
      std::uint32_t b[4];
      right.right_of_rows(16 * n, k, b);
      multiply_add<kHalf>(sums[2 * n], a, b[0], b[1]);
      multiply_add<kHalf>(sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// sums[n] += weights times columns first + 8 n of `right`; the weights are rounded to 16 bits.
template <Half kHalf, int kRight, int kDim, int kColumns>
RINGSPAN_DEVICE void multiply_columns(const float (&weights)[kRight / 8][4],
                                      const Matrix<kRight, kDim>& right, int first, int dim,
                                      float (&sums)[kColumns][4]) {
  RINGSPAN_UNROLL
  for (int k = 0; k < kRight / 16; ++k) {
    const float(&low)[4] = weights[2 * k];
    const float(&high)[4] = weights[2 * k + 1];
    const std::uint32_t a[4] = {pack<kHalf>(low[0], low[1]), pack<kHalf>(low[2], low[3]),
                                pack<kHalf>(high[0], high[1]), pack<kHalf>(high[2], high[3])};
    RINGSPAN_UNROLL
    for (int n = 0; n < kColumns; n += 2) {
      if (first + 8 * n >= dim) break;
      std::uint32_t b[4];
      right.right_of_columns(16 * k, first + 8 * n, b);
      multiply_add<kHalf>(sums[n], a, b[0], b[1]);
      multiply_add<kHalf>(sums[n + 1], a, b[2], b[3]);
    }
  }
}

/// The rows of a result that this thread has a part of: 2 rows, columns 8 n + 2 (lane % 4) and the
/// next one of each.
struct OwnRows {
  RINGSPAN_DEVICE static int row(int half) {
    return static_cast<int>(thread_index()) / 32 * 16 + static_cast<int>(thread_index()) % 32 / 4 +
           8 * half;
  }
  RINGSPAN_DEVICE static int column(int n, int odd) {
    return 8 * n + 2 * (static_cast<int>(thread_index()) % 4) + odd;
  }
};

/// What access_sums() does: sums = tensor, tensor = sums or tensor += factor * sums.
enum class Access { load, store, add };

/// Of this thread's part of the rows start + row * token_step, row < count, in fp32: the columns
/// from `first` to `dim`.

template <Access kAccess, int kColumns>
RINGSPAN_DEVICE void access_sums(const Strided<void>& tensor, std::int64_t start,
                                 std::int64_t token_step, std::int64_t count, int first, int dim,
                                 float factor, float (&sums)[kColumns][4]) {
  RINGSPAN_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = OwnRows::row(half);
    if (row >= count) continue;
    float* to = static_cast<float*>(tensor.data) + start + row * token_step * tensor.token_stride;
    RINGSPAN_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      RINGSPAN_UNROLL
      for (int odd = 0; odd < 2; ++odd) {
        const int column = first + OwnRows::column(n, odd);
        if (column >= dim) continue;
        float& sum = sums[n][2 * half + odd];
        if constexpr (kAccess == Access::load) sum = to[column];
        if constexpr (kAccess == Access::store) to[column] = sum;
        if constexpr (kAccess == Access::add) to[column] += factor * sum;
      }
    }
  }
}

template <typename Void>
RINGSPAN_DEVICE std::int64_t offset(const Strided<Void>& tensor, std::int64_t batch,
                                    std::int64_t token, std::int64_t head) {
  return batch * tensor.batch_stride + token * tensor.token_stride + head * tensor.head_stride;
}

}  // namespace ringspan::attention::cuda
