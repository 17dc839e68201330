// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/schedules/head_split.hpp"
#include "attention/schedules/row_exchange.hpp"

namespace ringspan::attention {

/// Keys, values and queries of one rank's heads at one token, or their gradients, packed in one
/// row: k, v, q in this order, so that k and v stay aligned where they are wider than q, as the
/// gradients of copied KV heads are.
struct QkvRow {
  QkvRow(const Shape& of_all, const HeadShare& of_rank, DType dtype_of_kv)
      : shape(of_all), share(of_rank), kv_dtype(dtype_of_kv) {}

  std::int64_t v_offset() const {
    return share.kv_heads.count * shape.head_dim * element_bytes(kv_dtype);
  }
  std::int64_t q_offset() const {
    return v_offset() + share.kv_heads.count * shape.value_dim * element_bytes(kv_dtype);
  }
  /// Up to whole elements of k and v, which only matters for an odd head_dim.
  std::int64_t bytes() const {
    const std::int64_t unit = element_bytes(kv_dtype);
    const std::int64_t end =
        q_offset() + share.heads.count * shape.head_dim * element_bytes(shape.dtype);
    return (end + unit - 1) / unit * unit;
  }

  TensorView k(const PackedRows& rows) const {
    return rows.tensor(0, kv_dtype, share.kv_heads.count, shape.head_dim);
  }
  TensorView v(const PackedRows& rows) const {
    return rows.tensor(v_offset(), kv_dtype, share.kv_heads.count, shape.value_dim);
  }
  TensorView q(const PackedRows& rows) const {
    return rows.tensor(q_offset(), shape.dtype, share.heads.count, shape.head_dim);
  }

  Shape shape;
  HeadShare share;
  DType kv_dtype;
};

}  // namespace ringspan::attention
