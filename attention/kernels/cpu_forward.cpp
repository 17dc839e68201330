// SPDX-License-Identifier: Apache-2.0
// A block of query panels and what they have gathered stay packed in the second-level cache while
// the keys pass by, a block at a time. Every panel that sees some of them folds them in.
#include "attention/kernels/cpu_forward.hpp"

#include <algorithm>
#include <numbers>

#include "attention/kernels/cpu_walk.hpp"
#include "attention/kernels/cpu_workspace.hpp"
#include "attention/kernels/host_movement.hpp"

namespace ringspan::attention::cpu {
namespace {

// Floats of packed queries and output that are meant to stay in a second-level cache of 2 MB; at
// head_dim 128, 24 panels of 48 queries.
constexpr std::int64_t kPackedFloats = 300'000;
constexpr std::int64_t kKeys = 256;

struct Workspace {
  Workspace(const InstructionSet& set, std::int64_t head_dim, std::int64_t value_dim, float* memory)
      : head_stride(round_up(head_dim, set.lanes)), value_stride(round_up(value_dim, set.lanes)) {
    Carver carver(memory);
    blocks = {whole_panels(set, kPackedFloats / (head_dim + value_dim)), kKeys};
    q_lanes = carver.take(blocks.queries * head_dim);
    out_lanes = carver.take(blocks.queries * value_dim);
    max = carver.take(blocks.queries);
    sum = carver.take(blocks.queries);
    decay = carver.take(set.width);
    q = carver.take(set.width * head_stride);
    k = carver.take(blocks.keys * head_stride);
    v = carver.take(blocks.keys * value_stride);
    weights = carver.take(blocks.keys * set.width);
    floats = carver.taken();
  }

  Blocks blocks;
  std::int64_t head_stride, value_stride;
  float* q_lanes;    // [panel][head_dim][width], times scale * log2(e)
  float* out_lanes;  // [panel][value_dim][width]
  float *max, *sum;  // [panel][width]
  float* decay;      // [width]
  float* q;          // [width][head_stride], of the panel being packed
  float* k;          // [keys][head_stride]
  float* v;          // [keys][value_stride]
  float* weights;    // [keys][width]
  std::int64_t floats;
};

class ForwardPass final : public Pass {
 public:
  ForwardPass(const InstructionSet& set, const Workspace& space, const ForwardBlock& block,
              const Partial& partial)
      : set_(set),
        space_(space),
        block_(block),
        partial_(partial),
        head_dim_(block.k.head_dim),
        value_dim_(block.v.head_dim) {}

  void load_queries(const HeadRows& queries) override {
    for_each_panel(queries, [&](std::int64_t first, std::int64_t width, const HeadRows& panel) {
      load_q(first, width, panel);
      load_partial(first, width, panel);
    });
  }

  void load_keys(const HeadRows& keys) override {
    const auto& [b, h, rows] = keys;
    copy_on_host(select(block_.k, b, h, rows),
                 packed_rows(space_.k, rows.count, head_dim_, space_.head_stride));
    copy_on_host(select(block_.v, b, h, rows),
                 packed_rows(space_.v, rows.count, value_dim_, space_.value_stride));
  }

  void compute(std::int64_t query, std::int64_t key, const PanelExtent& extent) override {
    ForwardPanel panel;
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
    panel.out_lanes = space_.out_lanes + query * value_dim_;
    panel.max = space_.max + query;
    panel.sum = space_.sum + query;
    panel.decay = space_.decay;
    set_.forward(panel);
  }

  void store_keys(const HeadRows&) override {}

  void store_queries(const HeadRows& queries) override {
    for_each_panel(queries, [&](std::int64_t first, std::int64_t width, const HeadRows& panel) {
      const auto& [b, h, rows] = panel;
      const TensorView out = select(partial_.out, b, h, rows);
      set_.transpose(value_dim_, rows.count, 1.0f, space_.out_lanes + first * value_dim_, width,
                     static_cast<float*>(out.data), out.token_stride);
      copy_on_host(packed_values(space_.max + first, rows.count), select(partial_.max, b, h, rows));
      copy_on_host(packed_values(space_.sum + first, rows.count), select(partial_.sum, b, h, rows));
    });
  }

 private:
  // Calls each(first query in the block, lanes, rows) for every panel.
  template <typename Each>
  void for_each_panel(const HeadRows& queries, const Each& each) const {
    const auto& [b, h, rows] = queries;
    for (std::int64_t i = 0; i < rows.count; i += set_.width) {
      const std::int64_t count = std::min(set_.width, rows.count - i);
      each(i, panel_width(set_, count),
           HeadRows{b, h, {rows.first + i * rows.step, rows.step, count}});
    }
  }

  void load_q(std::int64_t first, std::int64_t width, const HeadRows& panel) const {
    const auto& [b, h, rows] = panel;
    float* lanes = space_.q_lanes + first * head_dim_;
    if (rows.count < width) std::fill_n(lanes, head_dim_ * width, 0.0f);
    copy_on_host(select(block_.q, b, h, rows),
                 packed_rows(space_.q, rows.count, head_dim_, space_.head_stride));
    set_.transpose(rows.count, head_dim_,
                   static_cast<float>(block_.logits.scale * std::numbers::log2e), space_.q,
                   space_.head_stride, lanes, width);
  }

  void load_partial(std::int64_t first, std::int64_t width, const HeadRows& panel) const {
    const auto& [b, h, rows] = panel;
    float* lanes = space_.out_lanes + first * value_dim_;
    if (rows.count < width) std::fill_n(lanes, value_dim_ * width, 0.0f);
    const TensorView out = select(partial_.out, b, h, rows);
    set_.transpose(rows.count, value_dim_, 1.0f, static_cast<const float*>(out.data),
                   out.token_stride, lanes, width);
    std::fill_n(space_.max + first, width, 0.0f);
    std::fill_n(space_.sum + first, width, 0.0f);
    copy_on_host(select(partial_.max, b, h, rows), packed_values(space_.max + first, rows.count));
    copy_on_host(select(partial_.sum, b, h, rows), packed_values(space_.sum + first, rows.count));
  }

  const InstructionSet& set_;
  const Workspace& space_;
  const ForwardBlock& block_;
  const Partial& partial_;
  const std::int64_t head_dim_, value_dim_;
};

}  // namespace

std::int64_t forward_workspace(const InstructionSet& set, std::int64_t head_dim,
                               std::int64_t value_dim) {
  return Workspace(set, head_dim, value_dim, nullptr).floats;
}

void forward(const InstructionSet& set, float* workspace, comm::Device& device,
             const ForwardBlock& block, const Partial& partial) {
  const Workspace space(set, block.k.head_dim, block.v.head_dim, workspace);
  ForwardPass pass(set, space, block, partial);
  walk(set, space.blocks, block.tiles, block.q, block.k, device, pass);
}

}  // namespace ringspan::attention::cpu
