// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/shard_contract.hpp"

#include "comm/error.hpp"

namespace ringspan::attention {

void ShardContract::require(const Inputs& inputs, const Outputs& outputs) const {
  const Shape& shape = problem.shape;
  require_view("q", inputs.q, shape.heads, shape.head_dim);
  require_view("k", inputs.k, shape.kv_heads, shape.head_dim);
  require_view("v", inputs.v, shape.kv_heads, shape.value_dim);
  require_sinks("sinks", inputs.sinks);
  require_view("out", outputs.out, shape.heads, shape.value_dim);
  if (outputs.wants_lse()) {
    require_shape("lse", outputs.lse, DType::f32, shape.batch, tokens, shape.heads, 1);
  }
}

void ShardContract::require(const ConstTensorView& d_out, const Gradients& gradients) const {
  const Shape& shape = problem.shape;
  require_view("d_out", d_out, shape.heads, shape.value_dim);
  require_gradient("dq", gradients.dq, shape.heads, shape.head_dim);
  require_gradient("dk", gradients.dk, shape.kv_heads, shape.head_dim);
  require_gradient("dv", gradients.dv, shape.kv_heads, shape.value_dim);
  require_sinks("d_sinks", gradients.d_sinks);
}

void ShardContract::require_view(std::string_view what, const ConstTensorView& view,
                                 std::int64_t heads, std::int64_t head_dim) const {
  RINGSPAN_REQUIRE(view.tokens == tokens, what, " has ", view.tokens,
                   " tokens, but this rank's shard has ", tokens, " of the ",
                   problem.sequence.length, " (", rule, "); Schedule::shard() says which");
  require_shape(what, view, problem.shape.dtype, problem.shape.batch, tokens, heads, head_dim);
}

void ShardContract::require_gradient(std::string_view what, const TensorView& view,
                                     std::int64_t heads, std::int64_t head_dim) const {
  TensorView in_shape_dtype = view;
  const Shape& shape = problem.shape;
  if (view.dtype == accumulator(shape.dtype) || view.dtype == accumulator(shape)) {
    in_shape_dtype.dtype = shape.dtype;
  }
  require_view(what, in_shape_dtype, heads, head_dim);
}

void ShardContract::require_sinks(std::string_view what, const ConstTensorView& view) const {
  if (problem.sinks) {
    require_shape(what, view, DType::f32, 1, 1, problem.shape.heads, 1);
  } else {
    RINGSPAN_REQUIRE(view.data == nullptr, what, " given, but Problem::sinks is false");
  }
}

ShardContract layout_contract(const Problem& problem, LayoutKind layout, int ranks, int rank) {
  return {problem, tokens(shard(layout, problem.sequence, ranks, rank)),
          concat(name(layout), ", rank ", rank, " of ", ranks)};
}

void require_possible_in(LayoutKind layout, const Problem& problem, int ranks) {
  require_valid(problem);
  require_few_tiles(layout, problem.sequence, problem.mask, ranks);
}

}  // namespace ringspan::attention
