// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "attention/schedule.hpp"
#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/plan_saved.hpp"
#include "attention/schedules/shard_contract.hpp"

namespace ringspan::attention {

/// Makes it the identity of merge.
void fill_with_identity(Kernels& kernels, const Partial& partial);

/// What the backward pass needs of the forward pass.
struct SavedLse final : PlanSaved {
  SavedLse(const Plan& made_by, Tensor tensor) : PlanSaved(made_by), lse(std::move(tensor)) {}
  Tensor lse;
};

/// The side of attention that stays on its rank while keys and values come by: forward the softmax
/// state of the queries, backward their delta and dq. What the plans that move K and V share, the
/// check of their arguments included. In the backward pass the queries may also go themselves,
/// against keys and values that stay; their dq is then added up on the way.
class StationaryQueries {
 public:
  enum class Dq { stays, travels };

  StationaryQueries(comm::Communicator comm, Kernels& kernels, ShardContract contract);

  const Shape& shape() const { return contract_.problem.shape; }
  std::int64_t tokens() const { return contract_.tokens; }

  /// For the plan that this belongs to. The first call also reserves what the backward pass needs.
  std::unique_ptr<SavedLse> make_saved(const Plan& plan, Dq dq = Dq::stays);

  /// Throw invalid_argument for what the plan was not made for.
  void require(const Inputs& inputs, const Outputs& outputs) const {
    contract_.require(inputs, outputs);
  }
  void begin_forward(const Plan& plan, const Inputs& inputs, const Outputs& outputs, Saved* saved);
  void attend(const KvView& kv, std::span<const Tile> tiles);
  void end_forward();

  /// Throws invalid_argument for what the plan was not made for.
  void begin_backward(const Plan& plan, const Inputs& inputs, const Outputs& outputs,
                      const Saved& saved, const ConstTensorView& d_out, const Gradients& gradients);
  /// Adds the block's share to dq, and this rank's share to the block's gradient.
  void differentiate(const KvView& kv, std::span<const Tile> tiles, const KvBlock& gradient);
  /// Collective if the problem has sinks.
  void end_backward();

  /// Of the pass in progress, but for keys, values and tiles: what a schedule needs that computes
  /// with them otherwise, or elsewhere. What it adds to partial() or dq() counts.
  const ForwardBlock& forward_block() const { return forward_; }
  const Partial& partial() const { return partial_; }
  const BackwardBlock& backward_block() const { return backward_; }
  const TensorView& dq() const { return dq_.view(); }

 private:
  Tensor per_query(DType dtype, std::int64_t head_dim) const;

  comm::Communicator comm_;
  Kernels& kernels_;
  ShardContract contract_;
  Partial partial_;
  Tensor out_, max_, sum_;  // the memory of partial_
  Tensor delta_;
  Dq place_of_dq_ = Dq::stays;
  GradientSum dq_;
  Tensor d_sinks_;
  comm::Buffer d_sinks_staging_;

  // Of the pass in progress.
  ForwardBlock forward_;
  BackwardBlock backward_;
  ConstTensorView sinks_;
  Outputs outputs_;
  SavedLse* saved_ = nullptr;
  TensorView d_sinks_result_;
};

}  // namespace ringspan::attention
