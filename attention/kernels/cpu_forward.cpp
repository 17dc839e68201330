// SPDX-License-Identifier: Apache-2.0
// A block of query panels and what they have gathered stay packed in the second-level cache while
// the keys pass by, a block at a time. Every panel that sees some of them folds them in.
#include "attention/kernels/cpu_forward.hpp"

#include <algorithm>
#include <numbers>

#include "attention/kernels/cpu_walk.hpp"
#include "attention/kernels/cpu_workspace.hpp"
#include "attention/kernels/flush_subnormals.hpp"
#include "attention/kernels/host_movement.hpp"

namespace ringspan::attention::cpu {
namespace {

// Floats of packed queries and output that are meant to stay in a second-level cache of 2 MB; at
// head_dim 128, 24 panels of 48 queries.
constexpr std::int64_t kPackedFloats = 300'000;
constexpr std::int64_t kKeys = 256;

struct Workspace {
  Workspace(const InstructionSet& set, const PanelShape& shape, float* memory) {
    Carver carver(memory);
    blocks = {whole_panels(set, kPackedFloats / (shape.head_dim + shape.value_dim)), kKeys};
    q_lanes = carver.take(blocks.queries * shape.head_dim);
    out_lanes = carver.take(blocks.queries * shape.value_dim);
    max = carver.take(blocks.queries);
    sum = carver.take(blocks.queries);
    decay = carver.take(set.width);
    q = carver.take(set.width * shape.head_stride);
    k = carver.take(blocks.keys * shape.head_stride);
    v = carver.take(blocks.keys * shape.value_stride);
    weights = carver.take(blocks.keys * set.width);
    floats = carver.taken();
  }

  Blocks blocks;
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
  ForwardPass(const InstructionSet& set, const PanelShape& shape, const Workspace& space,
              const ForwardBlock& block, const Partial& partial)
      : set_(set), shape_(shape), space_(space), block_(block), partial_(partial) {}

  void load_queries(const HeadRows& queries) override {
    for_each_panel(queries, [&](std::int64_t first, std::int64_t width, const HeadRows& panel) {
      load_q(first, width, panel);
      load_partial(first, width, panel);
    });
  }

  void load_keys(const HeadRows& keys) override {
    const auto& [b, h, rows] = keys;
    pack_rows(select(block_.k, b, h, rows), space_.k, shape_.head_stride);
    pack_rows(select(block_.v, b, h, rows), space_.v, shape_.value_stride);
  }

  void compute(std::int64_t query, std::int64_t key, const PanelExtent& extent) override {
    const FlushSubnormals flush;
    set_.forward({{extent, shape_, space_.q_lanes + query * shape_.head_dim,
                   space_.k + key * shape_.head_stride, space_.v + key * shape_.value_stride,
                   space_.weights},
                  space_.out_lanes + query * shape_.value_dim,
                  space_.max + query,
                  space_.sum + query,
                  space_.decay});
  }

  void store_keys(const HeadRows&) override {}

  void store_queries(const HeadRows& queries) override {
    for_each_panel(queries, [&](std::int64_t first, std::int64_t width, const HeadRows& panel) {
      const auto& [b, h, rows] = panel;
      const TensorView out = select(partial_.out, b, h, rows);
      set_.transpose(shape_.value_dim, rows.count, 1.0f,
                     space_.out_lanes + first * shape_.value_dim, width,
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
    float* lanes = space_.q_lanes + first * shape_.head_dim;
    if (rows.count < width) std::fill_n(lanes, shape_.head_dim * width, 0.0f);
    pack_rows(select(block_.q, b, h, rows), space_.q, shape_.head_stride);
    set_.transpose(rows.count, shape_.head_dim,
                   static_cast<float>(block_.logits.scale * std::numbers::log2e), space_.q,
                   shape_.head_stride, lanes, width);
  }

  void load_partial(std::int64_t first, std::int64_t width, const HeadRows& panel) const {
    const auto& [b, h, rows] = panel;
    float* lanes = space_.out_lanes + first * shape_.value_dim;
    if (rows.count < width) std::fill_n(lanes, shape_.value_dim * width, 0.0f);
    const TensorView out = select(partial_.out, b, h, rows);
    set_.transpose(rows.count, shape_.value_dim, 1.0f, static_cast<const float*>(out.data),
                   out.token_stride, lanes, width);
    std::fill_n(space_.max + first, width, 0.0f);
    std::fill_n(space_.sum + first, width, 0.0f);
    copy_on_host(select(partial_.max, b, h, rows), packed_values(space_.max + first, rows.count));
    copy_on_host(select(partial_.sum, b, h, rows), packed_values(space_.sum + first, rows.count));
  }

  const InstructionSet& set_;
  const PanelShape& shape_;
  const Workspace& space_;
  const ForwardBlock& block_;
  const Partial& partial_;
};

}  // namespace

std::int64_t forward_workspace(const InstructionSet& set, std::int64_t head_dim,
                               std::int64_t value_dim) {
  return Workspace(set, panel_shape(set, head_dim, value_dim), nullptr).floats;
}

void forward(const InstructionSet& set, float* workspace, comm::Device& device,
             const ForwardBlock& block, const Partial& partial) {
  const PanelShape shape = panel_shape(set, block.k.head_dim, block.v.head_dim, block.logits);
  const Workspace space(set, shape, workspace);
  ForwardPass pass(set, shape, space, block, partial);
  walk(set, space.blocks, block.tiles, block.q, block.k, device, pass);
}

}  // namespace ringspan::attention::cpu
