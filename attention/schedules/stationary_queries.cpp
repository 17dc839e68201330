// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/stationary_queries.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "comm/collectives.hpp"

namespace ringspan::attention {
namespace {

Logits logits(const Problem& problem) {
  return {problem.softmax_scale.value_or(1.0 / std::sqrt(problem.shape.head_dim)), problem.softcap};
}

}  // namespace

void fill_with_identity(Kernels& kernels, const Partial& partial) {
  kernels.fill(partial.out, 0);
  kernels.fill(partial.max, -std::numeric_limits<double>::infinity());
  kernels.fill(partial.sum, 0);
}

StationaryQueries::StationaryQueries(comm::Communicator comm, Kernels& kernels,
                                     ShardContract contract)
    : comm_(std::move(comm)), kernels_(kernels), contract_(std::move(contract)) {
  kernels_.require_possible(logits(contract_.problem));
  out_ = per_query(accumulator(shape()), shape().value_dim);
  max_ = per_query(max_dtype(shape()), 1);
  sum_ = per_query(accumulator(shape()), 1);
  partial_ = {out_, max_, sum_};
  forward_.logits = backward_.logits = logits(contract_.problem);
  if (contract_.problem.sinks) {
    d_sinks_ = Tensor(comm_.device(), accumulator(shape()), 1, 1, shape().heads, 1);
    d_sinks_staging_ = comm_.device().allocate(d_sinks_.view().bytes());
  }
}

Tensor StationaryQueries::per_query(DType dtype, std::int64_t head_dim) const {
  return Tensor(comm_.device(), dtype, shape().batch, tokens(), shape().heads, head_dim);
}

std::unique_ptr<SavedLse> StationaryQueries::make_saved(const Plan& plan, Dq dq) {
  place_of_dq_ = dq;
  if (!delta_.buffer()) delta_ = per_query(accumulator(shape().dtype), 1);
  if (dq == Dq::stays) {
    dq_.reserve(comm_.device(), shape(), tokens(), shape().heads, shape().head_dim);
  }
  return std::make_unique<SavedLse>(plan, per_query(accumulator(shape().dtype), 1));
}

void StationaryQueries::begin_forward(const Plan& plan, const Inputs& inputs,
                                      const Outputs& outputs, Saved* saved) {
  contract_.require(inputs, outputs);
  saved_ = saved_to_fill<SavedLse>(plan, saved);
  outputs_ = outputs;
  forward_.q = inputs.q;
  sinks_ = inputs.sinks;
  fill_with_identity(kernels_, partial_);
}

void StationaryQueries::attend(const KvView& kv, std::span<const Tile> tiles) {
  if (tiles.empty()) return;
  forward_.k = kv.k;
  forward_.v = kv.v;
  forward_.tiles = tiles;
  kernels_.forward(forward_, partial_);
}

void StationaryQueries::end_forward() {
  const TensorView lse = saved_ ? saved_->lse.view() : outputs_.lse;
  kernels_.finalize(partial_, sinks_.data ? &sinks_ : nullptr, outputs_.out, lse);
  if (!saved_) return;
  if (outputs_.wants_lse()) kernels_.copy(lse, outputs_.lse);
  saved_->filled = true;
}

void StationaryQueries::begin_backward(const Plan& plan, const Inputs& inputs,
                                       const Outputs& outputs, const Saved& saved,
                                       const ConstTensorView& d_out, const Gradients& gradients) {
  contract_.require(inputs, outputs);
  contract_.require(d_out, gradients);
  const auto& kept = saved_to_read<SavedLse>(plan, saved);
  d_sinks_result_ = gradients.d_sinks;
  backward_.q = inputs.q;
  backward_.lse = kept.lse;
  backward_.delta = delta_;
  backward_.d_out = d_out;
  sinks_ = inputs.sinks;
  const TensorView d_sinks = d_sinks_;
  if (sinks_.data) kernels_.fill(d_sinks, 0);
  kernels_.delta(outputs.out, d_out, backward_.lse, sinks_.data ? &sinks_ : nullptr, delta_,
                 sinks_.data ? &d_sinks : nullptr);
  if (place_of_dq_ == Dq::stays) dq_.begin(kernels_, gradients.dq);
}

void StationaryQueries::differentiate(const KvView& kv, std::span<const Tile> tiles,
                                      const KvBlock& gradient) {
  if (tiles.empty()) return;
  backward_.k = kv.k;
  backward_.v = kv.v;
  backward_.tiles = tiles;
  kernels_.backward(backward_, dq_.view(), gradient.k, gradient.v);
}

void StationaryQueries::end_backward() {
  if (place_of_dq_ == Dq::stays) dq_.end(kernels_);
  if (!sinks_.data) return;
  comm::all_reduce(comm_, comm::whole(d_sinks_.buffer()), element(accumulator(shape())),
                   comm::Reduction::sum, d_sinks_staging_);
  kernels_.copy(d_sinks_, d_sinks_result_);
}

}  // namespace ringspan::attention
