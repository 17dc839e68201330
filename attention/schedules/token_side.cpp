// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/token_side.hpp"

namespace ringspan::attention {

void TokenSide::pack_qkv(const Inputs& inputs) const {
  for (int rank = 0; rank < cut_.ranks(); ++rank) {
    const QkvRow row = cut_.qkv_row(rank, group_);
    const PackedRows rows = exchange_.token_side(rank);
    const auto& [heads, kv_heads] = row.share;
    kernels_.copy(inputs.q.slice_heads(heads.first, heads.count), row.q(rows));
    if (kv_heads.count == 0) continue;
    kernels_.copy(inputs.k.slice_heads(kv_heads.first, kv_heads.count), row.k(rows));
    kernels_.copy(inputs.v.slice_heads(kv_heads.first, kv_heads.count), row.v(rows));
  }
}

// Calls each(packed heads, first head, count) for every run of heads that lie side by side: all of
// them, where there is one group.
template <typename Each>
void TokenSide::for_each_run_of_heads(DType dtype, std::int64_t value_dim, const Each& each) const {
  for (int rank = 0, next = 0; rank < cut_.ranks(); rank = next) {
    Part run = cut_.group(rank, group_).share.heads;
    for (next = rank + 1; next < cut_.ranks(); ++next) {
      const Part heads = cut_.group(next, group_).share.heads;
      if (heads.first != run.first + run.count) break;
      run.count += heads.count;
    }
    each(exchange_.token_side(rank).tensor(0, dtype, run.count, value_dim), run);
  }
}

void TokenSide::pack_out(const ConstTensorView& out) const {
  for_each_run_of_heads(out.dtype, out.head_dim, [&](const TensorView& packed, const Part& heads) {
    kernels_.copy(out.slice_heads(heads.first, heads.count), packed);
  });
}

void TokenSide::unpack_out(const TensorView& out) const {
  for_each_run_of_heads(out.dtype, out.head_dim, [&](const TensorView& packed, const Part& heads) {
    kernels_.copy(packed, out.slice_heads(heads.first, heads.count));
  });
}

void TokenSide::unpack(const Gradients& gradients) const {
  sum_copies();
  for (int rank = 0; rank < cut_.ranks(); ++rank) {
    const QkvRow row = cut_.gradient_row(rank, group_);
    const PackedRows rows = exchange_.token_side(rank);
    const auto& [heads, kv_heads] = row.share;
    kernels_.copy(row.q(rows), gradients.dq.slice_heads(heads.first, heads.count));
    if (kv_heads.count == 0 || cut_.repeats_kv(rank)) continue;
    kernels_.copy(row.k(rows), gradients.dk.slice_heads(kv_heads.first, kv_heads.count));
    kernels_.copy(row.v(rows), gradients.dv.slice_heads(kv_heads.first, kv_heads.count));
  }
}

// Ranks that hold a KV head are neighbours, and the first of them gets the sum.
void TokenSide::sum_copies() const {
  for (int rank = 0, first = 0; rank < cut_.ranks(); ++rank) {
    const QkvRow row = cut_.gradient_row(rank, group_);
    if (!cut_.repeats_kv(rank)) first = rank;
    if (first == rank || row.share.kv_heads.count == 0) continue;
    const QkvRow sum = cut_.gradient_row(first, group_);
    const PackedRows rows = exchange_.token_side(rank), sums = exchange_.token_side(first);
    kernels_.accumulate(row.k(rows), sum.k(sums));
    kernels_.accumulate(row.v(rows), sum.v(sums));
  }
}

}  // namespace ringspan::attention
