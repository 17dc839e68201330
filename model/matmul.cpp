// SPDX-License-Identifier: Apache-2.0
#include "model/matmul.hpp"

#include <cblas.h>

#include <limits>

namespace ringspan::model {
namespace {

f77_int narrow(std::int64_t size) {
  RINGSPAN_REQUIRE(size <= std::numeric_limits<f77_int>::max(), "a matrix of ", size,
                   " rows or columns; the library multiplies up to ",
                   std::numeric_limits<f77_int>::max());
  return static_cast<f77_int>(size);
}

CBLAS_TRANSPOSE stored(const Factor& factor) {
  return factor.transposed ? CblasTrans : CblasNoTrans;
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
  const f77_int m = narrow(a.rows()), n = narrow(b.columns()), k = narrow(a.columns());
  const f77_int lda = narrow(a.matrix.columns()), ldb = narrow(b.matrix.columns());
  if (to.dtype() == DType::f64) {
    cblas_dgemm(CblasRowMajor, stored(a), stored(b), m, n, k, 1.0, a.matrix.data<double>(), lda,
                b.matrix.data<double>(), ldb, accumulate ? 1.0 : 0.0, to.data<double>(), n);
  } else {
    cblas_sgemm(CblasRowMajor, stored(a), stored(b), m, n, k, 1.0F, a.matrix.data<float>(), lda,
                b.matrix.data<float>(), ldb, accumulate ? 1.0F : 0.0F, to.data<float>(), n);
  }
}

}  // namespace ringspan::model
