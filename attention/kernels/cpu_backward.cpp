// SPDX-License-Identifier: Apache-2.0
// The same walk as forward's with smaller blocks, since more has to stay in the cache. q and d_out
// are kept twice: by lanes for the products over head_dim, by rows for the products over queries.
#include "attention/kernels/cpu_backward.hpp"

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention/kernels/cpu_walk.hpp"
#include "attention/kernels/cpu_workspace.hpp"
#include "attention/kernels/host_movement.hpp"

namespace ringspan::attention::cpu {
namespace {

// As in forward; at head_dim 128, 13 panels of 48 queries.
constexpr std::int64_t kPackedFloats = 400'000;
constexpr std::int64_t kKeys = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Workspace {
  Workspace(const InstructionSet& set, std::int64_t head_dim, std::int64_t value_dim, float* memory)
      : head_stride(round_up(head_dim, set.lanes)), value_stride(round_up(value_dim, set.lanes)) {
    Carver carver(memory);
    blocks = {whole_panels(set, kPackedFloats / (3 * head_dim + 2 * value_dim)), kKeys};
    q = carver.take(blocks.queries * head_stride);
    q_lanes = carver.take(blocks.queries * head_dim);
    dq_lanes = carver.take(blocks.queries * head_dim);
    d_out = carver.take(blocks.queries * value_stride);
    d_out_lanes = carver.take(blocks.queries * value_dim);
    lse = carver.take(blocks.queries);
    delta = carver.take(blocks.queries);
    k = carver.take(blocks.keys * head_stride);
    dk = carver.take(blocks.keys * head_stride);
    v = carver.take(blocks.keys * value_stride);
    dv = carver.take(blocks.keys * value_stride);
    weights = carver.take(blocks.keys * set.width);
    d_weights = carver.take(blocks.keys * set.width);
    floats = carver.taken();
  }

  Blocks blocks;
  std::int64_t head_stride, value_stride;
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
  BackwardPass(const InstructionSet& set, const Workspace& space, const BackwardBlock& block,
               const TensorView& dq, const TensorView& dk, const TensorView& dv)
      : set_(set),
        space_(space),
        block_(block),
        dq_(dq),
        dk_(dk),
        dv_(dv),
        head_dim_(block.k.head_dim),
        value_dim_(block.v.head_dim) {}

  void load_queries(const HeadRows& queries) override {
    const std::int64_t count = queries.rows.count;
    load_rows(block_.q, queries, space_.q, space_.head_stride);
    load_rows(block_.d_out, queries, space_.d_out, space_.value_stride);
    load_row_values(queries);
    std::fill_n(space_.dq_lanes, round_up(count, set_.lanes) * head_dim_, 0.0f);
    const auto scale = static_cast<float>(block_.logits.scale * std::numbers::log2e);
    for (std::int64_t i = 0; i < count; i += set_.width) {
      const std::int64_t width = panel_width(set_, count - i);
      set_.transpose(width, head_dim_, scale, space_.q + i * space_.head_stride, space_.head_stride,
                     space_.q_lanes + i * head_dim_, width);
      set_.transpose(width, value_dim_, 1.0f, space_.d_out + i * space_.value_stride,
                     space_.value_stride, space_.d_out_lanes + i * value_dim_, width);
    }
  }

  void load_keys(const HeadRows& keys) override {
    const auto& [b, h, rows] = keys;
    copy_on_host(select(block_.k, b, h, rows), packed_k(space_.k, rows.count));
    copy_on_host(select(block_.v, b, h, rows), packed_v(space_.v, rows.count));
    std::fill_n(space_.dk, rows.count * space_.head_stride, 0.0f);
    std::fill_n(space_.dv, rows.count * space_.value_stride, 0.0f);
  }

  void compute(std::int64_t query, std::int64_t key, const PanelExtent& extent) override {
    BackwardPanel panel;
    static_cast<PanelExtent&>(panel) = extent;
    panel.head_dim = head_dim_;
    panel.value_dim = value_dim_;
    panel.head_stride = space_.head_stride;
    panel.value_stride = space_.value_stride;
    if (block_.logits.softcap) {
      panel.cap = static_cast<float>(*block_.logits.softcap * std::numbers::log2e);
    }
    panel.q_lanes = space_.q_lanes + query * head_dim_;
    panel.k = space_.k + key * space_.head_stride;
    panel.v = space_.v + key * space_.value_stride;
    panel.weights = space_.weights;
    panel.q = space_.q + query * space_.head_stride;
    panel.d_out = space_.d_out + query * space_.value_stride;
    panel.d_out_lanes = space_.d_out_lanes + query * value_dim_;
    panel.lse = space_.lse + query;
    panel.delta = space_.delta + query;
    panel.scale = static_cast<float>(block_.logits.scale);
    panel.dq_lanes = space_.dq_lanes + query * head_dim_;
    panel.dk = space_.dk + key * space_.head_stride;
    panel.dv = space_.dv + key * space_.value_stride;
    panel.d_weights = space_.d_weights;
    set_.backward(panel);
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
      float* dq = space_.q + i * space_.head_stride;  // q is no longer needed
      set_.transpose(head_dim_, count, 1.0f, space_.dq_lanes + i * head_dim_,
                     panel_width(set_, count), dq, space_.head_stride);
    }
    accumulate_on_host(packed_k(space_.q, rows.count), select(dq_, b, h, rows));
  }

 private:
  TensorView packed_k(float* data, std::int64_t rows) const {
    return packed_rows(data, rows, head_dim_, space_.head_stride);
  }
  TensorView packed_v(float* data, std::int64_t rows) const {
    return packed_rows(data, rows, value_dim_, space_.value_stride);
  }

  // As fp32, with zeros behind the last column and behind the last row, up to a whole vector: they
  // take part in the products over queries.
  void load_rows(const ConstTensorView& view, const HeadRows& queries, float* to,
                 std::int64_t stride) const {
    const auto& [b, h, rows] = queries;
    float* end = to + rows.count * stride;
    if (view.head_dim < stride) std::fill(to, end, 0.0f);
    std::fill(end, to + round_up(rows.count, set_.lanes) * stride, 0.0f);
    copy_on_host(select(view, b, h, rows), packed_rows(to, rows.count, view.head_dim, stride));
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
    std::fill(space_.lse + rows.count, space_.lse + lanes, kInfinity);
    std::fill(space_.delta + rows.count, space_.delta + lanes, 0.0f);
  }

  const InstructionSet& set_;
  const Workspace& space_;
  const BackwardBlock& block_;
  const TensorView &dq_, &dk_, &dv_;
  const std::int64_t head_dim_, value_dim_;
};

}  // namespace

std::int64_t backward_workspace(const InstructionSet& set, std::int64_t head_dim,
                                std::int64_t value_dim) {
  return Workspace(set, head_dim, value_dim, nullptr).floats;
}

void backward(const InstructionSet& set, float* workspace, comm::Device& device,
              const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
              const TensorView& dv) {
  const Workspace space(set, block.k.head_dim, block.v.head_dim, workspace);
  BackwardPass pass(set, space, block, dq, dk, dv);
  walk(set, space.blocks, block.tiles, block.q, block.k, device, pass);
}

}  // namespace ringspan::attention::cpu
