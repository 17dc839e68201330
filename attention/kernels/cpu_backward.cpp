// SPDX-License-Identifier: Apache-2.0
// The same walk as forward's with smaller blocks, since more has to stay in the cache. q and d_out
// are kept twice: by lanes for the products over head_dim, by rows for the products over queries.
#include "attention/kernels/cpu_backward.hpp"

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention/kernels/cpu_walk.hpp"
#include "attention/kernels/cpu_workspace.hpp"
#include "attention/kernels/flush_subnormals.hpp"
#include "attention/kernels/host_movement.hpp"

namespace ringspan::attention::cpu {
namespace {

// As in forward; at head_dim 128, 13 panels of 48 queries.
constexpr std::int64_t kPackedFloats = 400'000;
constexpr std::int64_t kKeys = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Workspace {
  Workspace(const InstructionSet& set, const PanelShape& shape, float* memory) {
    Carver carver(memory);
    blocks = {whole_panels(set, kPackedFloats / (3 * shape.head_dim + 2 * shape.value_dim)), kKeys};
    q = carver.take(blocks.queries * shape.head_stride);
    q_lanes = carver.take(blocks.queries * shape.head_dim);
    dq_lanes = carver.take(blocks.queries * shape.head_dim);
    d_out = carver.take(blocks.queries * shape.value_stride);
    d_out_lanes = carver.take(blocks.queries * shape.value_dim);
    lse = carver.take(blocks.queries);
    delta = carver.take(blocks.queries);
    k = carver.take(blocks.keys * shape.head_stride);
    dk = carver.take(blocks.keys * shape.head_stride);
    v = carver.take(blocks.keys * shape.value_stride);
    dv = carver.take(blocks.keys * shape.value_stride);
    weights = carver.take(blocks.keys * set.width);
    d_weights = carver.take(blocks.keys * set.width);
    floats = carver.taken();
  }

  Blocks blocks;
  float* q;                    // [panel][width][head_stride]
  float* q_lanes;              // [panel][head_dim][width], times scale * log2(e)
  float* dq_lanes;             // [panel][head_dim][width]
  float* d_out;                // [panel][width][value_stride]
  float* d_out_lanes;          // [panel][value_dim][width]
  float *lse, *delta;          // [panel][width], lse times log2(e)
  float *k, *dk;               // [keys][head_stride]
  float *v, *dv;               // [keys][value_stride]
  float *weights, *d_weights;  // [keys][width]
  std::int64_t floats;
};

class BackwardPass final : public Pass {
 public:
  BackwardPass(const InstructionSet& set, const PanelShape& shape, const Workspace& space,
               const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
               const TensorView& dv)
      : set_(set), shape_(shape), space_(space), block_(block), dq_(dq), dk_(dk), dv_(dv) {}

  void load_queries(const HeadRows& queries) override {
    const std::int64_t count = queries.rows.count;
    load_rows(block_.q, queries, space_.q, shape_.head_stride);
    load_rows(block_.d_out, queries, space_.d_out, shape_.value_stride);
    load_row_values(queries);
    std::fill_n(space_.dq_lanes, round_up(count, set_.lanes) * shape_.head_dim, 0.0f);
    const auto scale = static_cast<float>(block_.logits.scale * std::numbers::log2e);
    for (std::int64_t i = 0; i < count; i += set_.width) {
      const std::int64_t width = panel_width(set_, count - i);
      set_.transpose(width, shape_.head_dim, scale, space_.q + i * shape_.head_stride,
                     shape_.head_stride, space_.q_lanes + i * shape_.head_dim, width);
      set_.transpose(width, shape_.value_dim, 1.0f, space_.d_out + i * shape_.value_stride,
                     shape_.value_stride, space_.d_out_lanes + i * shape_.value_dim, width);
    }
  }

  void load_keys(const HeadRows& keys) override {
    const auto& [b, h, rows] = keys;
    pack_rows(select(block_.k, b, h, rows), space_.k, shape_.head_stride);
    pack_rows(select(block_.v, b, h, rows), space_.v, shape_.value_stride);
    std::fill_n(space_.dk, rows.count * shape_.head_stride, 0.0f);
    std::fill_n(space_.dv, rows.count * shape_.value_stride, 0.0f);
  }

  void compute(std::int64_t query, std::int64_t key, const PanelExtent& extent) override {
    const FlushSubnormals flush;
    set_.backward({{extent, shape_, space_.q_lanes + query * shape_.head_dim,
                    space_.k + key * shape_.head_stride, space_.v + key * shape_.value_stride,
                    space_.weights},
                   space_.q + query * shape_.head_stride,
                   space_.d_out + query * shape_.value_stride,
                   space_.d_out_lanes + query * shape_.value_dim,
                   space_.lse + query,
                   space_.delta + query,
                   static_cast<float>(block_.logits.scale),
                   space_.dq_lanes + query * shape_.head_dim,
                   space_.dk + key * shape_.head_stride,
                   space_.dv + key * shape_.value_stride,
                   space_.d_weights});
  }

  void store_keys(const HeadRows& keys) override {
    const auto& [b, h, rows] = keys;
    accumulate_on_host(packed_k(space_.dk, rows.count), select(dk_, b, h, rows));
    accumulate_on_host(packed_v(space_.dv, rows.count), select(dv_, b, h, rows));
  }

  void store_queries(const HeadRows& queries) override {
    const auto& [b, h, rows] = queries;
    for (std::int64_t i = 0; i < rows.count; i += set_.width) {
      const std::int64_t count = std::min(set_.width, rows.count - i);
      float* dq = space_.q + i * shape_.head_stride;  // q is no longer needed
      set_.transpose(shape_.head_dim, count, 1.0f, space_.dq_lanes + i * shape_.head_dim,
                     panel_width(set_, count), dq, shape_.head_stride);
    }
    accumulate_on_host(packed_k(space_.q, rows.count), select(dq_, b, h, rows));
  }

 private:
  TensorView packed_k(float* data, std::int64_t rows) const {
    return packed_rows(data, rows, shape_.head_dim, shape_.head_stride);
  }
  TensorView packed_v(float* data, std::int64_t rows) const {
    return packed_rows(data, rows, shape_.value_dim, shape_.value_stride);
  }

  // With rows of zeros up to a whole vector of lanes.
  void load_rows(const ConstTensorView& view, const HeadRows& queries, float* to,
                 std::int64_t stride) const {
    const auto& [b, h, rows] = queries;
    pack_rows(select(view, b, h, rows), to, stride);
    std::fill(to + rows.count * stride, to + round_up(rows.count, set_.lanes) * stride, 0.0f);
  }

  void load_row_values(const HeadRows& queries) const {
    const auto& [b, h, rows] = queries;
    const std::int64_t lanes = round_up(rows.count, set_.lanes);
    copy_on_host(select(block_.lse, b, h, rows), packed_values(space_.lse, rows.count));
    copy_on_host(select(block_.delta, b, h, rows), packed_values(space_.delta, rows.count));
    for (std::int64_t i = 0; i < rows.count; ++i) {
      float& lse = space_.lse[i];  // +inf makes all weights zero, for rows that saw nothing too
      lse = lse == -kInfinity ? kInfinity : lse * std::numbers::log2e_v<float>;
    }
    std::fill(space_.lse + rows.count, space_.lse + lanes, 0.0f);
    std::fill(space_.delta + rows.count, space_.delta + lanes, 0.0f);
  }

  const InstructionSet& set_;
  const PanelShape& shape_;
  const Workspace& space_;
  const BackwardBlock& block_;
  const TensorView &dq_, &dk_, &dv_;
};

}  // namespace

std::int64_t backward_workspace(const InstructionSet& set, std::int64_t head_dim,
                                std::int64_t value_dim) {
  return Workspace(set, panel_shape(set, head_dim, value_dim), nullptr).floats;
}

void backward(const InstructionSet& set, float* workspace, comm::Device& device,
              const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
              const TensorView& dv) {
  const PanelShape shape = panel_shape(set, block.k.head_dim, block.v.head_dim, block.logits);
  const Workspace space(set, shape, workspace);
  BackwardPass pass(set, shape, space, block, dq, dk, dv);
  walk(set, space.blocks, block.tiles, block.q, block.k, device, pass);
}

}  // namespace ringspan::attention::cpu
