// SPDX-License-Identifier: Apache-2.0
#include "model/matmul.hpp"

#include <blis.h>

namespace ringspan::model {
namespace {

trans_t stored(const Factor& factor) {
  return factor.transposed ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE;
}

/// Factors as the library wants them: it reads them only.
template <typename Real>
Real* elements(const Factor& factor) {
  return const_cast<Real*>(factor.matrix.data<Real>());
}

/// The library's own interface, because BLIS 0.9 under AVX2 reads beyond the end of small factors
/// in the kernels of its BLAS interface, which pack nothing.
template <typename Real, typename Gemm>
void multiply_as(Gemm gemm, const Factor& a, const Factor& b, const Matrix& to, bool accumulate) {
  Real one = 1, before = accumulate ? 1 : 0;
  rntm_t packed = BLIS_RNTM_INITIALIZER;
  bli_rntm_disable_l3_sup(&packed);
  gemm(stored(a), stored(b), to.rows(), to.columns(), a.columns(), &one, elements<Real>(a),
       a.matrix.columns(), 1, elements<Real>(b), b.matrix.columns(), 1, &before, to.data<Real>(),
       to.columns(), 1, nullptr, &packed);
}

}  // namespace

void multiply(const Factor& a, const Factor& b, const Matrix& to, bool accumulate) {
  RINGSPAN_REQUIRE(a.columns() == b.rows() && a.rows() == to.rows() && b.columns() == to.columns(),
                   "product of ", a.rows(), " x ", a.columns(), " and ", b.rows(), " x ",
                   b.columns(), " into ", to.rows(), " x ", to.columns());
  if (to.elements() == 0) return;
  if (a.columns() == 0) {
    if (!accumulate) fill(to, 0);
    return;
  }
  if (to.dtype() == DType::f64) {
    multiply_as<double>(bli_dgemm_ex, a, b, to, accumulate);
  } else {
    multiply_as<float>(bli_sgemm_ex, a, b, to, accumulate);
  }
}

}  // namespace ringspan::model
