// SPDX-License-Identifier: Apache-2.0
// Matrix products on packed fp32 blocks. One micro-kernel keeps kRows x 3 vectors of the result in
// registers and serves all five products of attention, because either index of the left factor may
// be the contiguous one. Included once for every instruction set.
#if defined(RINGSPAN_CPU_MULTIPLY_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGSPAN_CPU_MULTIPLY_INL_HPP
#undef RINGSPAN_CPU_MULTIPLY_INL_HPP
#else
#define RINGSPAN_CPU_MULTIPLY_INL_HPP
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringspan::attention::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr std::int64_t kLanes = hn::MaxLanes(kFloats);

// Result vectors in registers: 8 x 3 of 32 registers, 4 x 3 of 16.
constexpr int kVectors = 3;
constexpr int kRows = HWY_CAP_GE512 || HWY_ARCH_ARM_A64 ? 8 : 4;

/// What the result starts from: nothing, what it held, or that times `factor` of its column.
enum class Start { zero, held, scaled };

/// Which index of the left factor a(i, k) is contiguous.
enum class Contiguous { row, depth };

struct Product {
  std::int64_t depth;
  const float* a;  // [rows][a_stride] or, with Contiguous::row, [depth][a_stride]
  std::int64_t a_stride;
  const float* b;  // [depth][b_stride]
  std::int64_t b_stride;
  float* c;  // [rows][c_stride]
  std::int64_t c_stride;
  Start start;
  const float* factor;  // [columns], for Start::scaled
};

/// R rows of V vectors: c(i, j) = start + sum over k, in order, of a(i, k) b(k, j).
template <int R, int V, Contiguous kContiguous>
HWY_INLINE void micro_kernel(const Product& p, std::int64_t row, std::int64_t column) {
  const std::int64_t row_step = kContiguous == Contiguous::row ? 1 : p.a_stride;
  const std::int64_t depth_step = kContiguous == Contiguous::row ? p.a_stride : 1;
  const float* HWY_RESTRICT a = p.a + row * row_step;
  const float* HWY_RESTRICT b = p.b + column;
  float* HWY_RESTRICT c = p.c + row * p.c_stride + column;
  Vector sum[R][V];
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < V; ++j) {
      sum[i][j] = p.start == Start::zero ? hn::Zero(kFloats)
                                         : hn::LoadU(kFloats, c + i * p.c_stride + j * kLanes);
      if (p.start == Start::scaled) {
        sum[i][j] = hn::Mul(sum[i][j], hn::LoadU(kFloats, p.factor + column + j * kLanes));
      }
    }
  }
  for (std::int64_t k = 0; k < p.depth; ++k, a += depth_step, b += p.b_stride) {
    Vector right[V];
    for (int j = 0; j < V; ++j) right[j] = hn::LoadU(kFloats, b + j * kLanes);
    for (int i = 0; i < R; ++i) {
      const Vector left = hn::Set(kFloats, a[i * row_step]);
      for (int j = 0; j < V; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < V; ++j) hn::StoreU(sum[i][j], kFloats, c + i * p.c_stride + j * kLanes);
  }
}

/// All rows of V vectors of columns, the first of them `column`.
template <int V, Contiguous kContiguous>
HWY_NOINLINE void multiply_strip(const Product& p, std::int64_t rows, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) micro_kernel<kRows, V, kContiguous>(p, row, column);
  for (; row < rows; ++row) micro_kernel<1, V, kContiguous>(p, row, column);
}

/// c = start + a b; `columns` is a multiple of kLanes.
template <Contiguous kContiguous>
void multiply(std::int64_t rows, std::int64_t columns, const Product& p) {
  for (std::int64_t column = 0; column < columns;) {
    const std::int64_t left = (columns - column) / kLanes;
    // One vector alone is slow: four are better split in the middle.
    const std::int64_t vectors = left == 4 ? 2 : left < kVectors ? left : kVectors;
    if (vectors == 3) multiply_strip<3, kContiguous>(p, rows, column);
    if (vectors == 2) multiply_strip<2, kContiguous>(p, rows, column);
    if (vectors == 1) multiply_strip<1, kContiguous>(p, rows, column);
    column += vectors * kLanes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::attention::cpu
HWY_AFTER_NAMESPACE();

#endif
