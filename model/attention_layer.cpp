// SPDX-License-Identifier: Apache-2.0
#include "model/attention_layer.hpp"

#include <cmath>
#include <utility>

namespace ringspan::model {

AttentionLayer::AttentionLayer(Parameters& parameters, const std::string& name,
                               const ModelConfig& config, std::int64_t site)
    : config_(config),
      site_(site),
      norm_(parameters, name + ".norm", config),
      q_(parameters, name + ".q", config.hidden, config.heads * config.head_dim, Cut::columns,
         config.weight_deviation),
      k_(parameters, name + ".k", config.hidden, config.kv_heads * config.head_dim, Cut::columns,
         config.weight_deviation),
      v_(parameters, name + ".v", config.hidden, config.kv_heads * config.head_dim, Cut::columns,
         config.weight_deviation),
      out_(parameters, name + ".out", config.heads * config.head_dim, config.hidden, Cut::rows,
           config.residual_deviation()) {
  if (config.variant == Variant::llama) return;
  q_bias_.emplace(parameters, name + ".q.bias", config.heads * config.head_dim, Cut::columns);
  k_bias_.emplace(parameters, name + ".k.bias", config.kv_heads * config.head_dim, Cut::columns);
  v_bias_.emplace(parameters, name + ".v.bias", config.kv_heads * config.head_dim, Cut::columns);
  out_bias_.emplace(parameters, name + ".out.bias", config.hidden, Cut::none);
}

DropoutKey AttentionLayer::key(const Pass& pass) const {
  return {config_.dropout, config_.seed, pass.step, site_};
}

attention::TensorView AttentionLayer::heads(const Pass& pass, const Matrix& matrix) const {
  return matrix.tensor(pass.shard.batch, matrix.columns() / config_.head_dim);
}

void AttentionLayer::rotate(const Pass& pass, const Matrix& q, const Matrix& k, Turn turn) const {
  if (config_.variant == Variant::gpt) return;
  for (const Matrix* const x : {&q, &k}) {
    model::rotate(*x, config_.head_dim, pass.shard.positions, config_.rope_base, turn);
  }
}

void AttentionLayer::in(const Pass& pass, const Matrix& x, AttentionState& state) const {
  const Matrix gathered = pass.group.gather(norm_.forward(pass.device(), x));
  state.q = q_.forward(pass.device(), gathered);
  state.k = k_.forward(pass.device(), gathered);
  state.v = v_.forward(pass.device(), gathered);
  if (q_bias_) {
    q_bias_->forward(state.q);
    k_bias_->forward(state.k);
    v_bias_->forward(state.v);
  }
  rotate(pass, state.q, state.k, Turn::forward);
}

void AttentionLayer::attend(const Pass& pass, AttentionState& state, bool keep) const {
  state.out = like(pass.device(), state.q);
  if (keep) state.saved = pass.plan.make_saved();
  pass.plan.forward({heads(pass, state.q), heads(pass, state.k), heads(pass, state.v)},
                    {heads(pass, state.out)}, state.saved.get());
}

Matrix AttentionLayer::out(const Pass& pass, const Matrix& x, const AttentionState& state,
                           Tile tile) const {
  const Matrix share(pass.device(), x.dtype(), pass.group.gathered_count(tile), x.columns());
  std::int64_t row = 0;
  for (const Part& run : pass.group.gathered_rows(tile)) {
    out_.forward(pass.device(), state.out.part(run.first, run.count), share.part(row, run.count));
    row += run.count;
  }
  const Matrix y = pass.group.sum_to_piece(share, tile);
  if (out_bias_) out_bias_->forward(y);
  drop(y, pass.piece, pass.group.tile_rows(tile).first, key(pass));
  add(x, y);
  return y;
}

void AttentionLayer::out_backward(const Pass& pass, const Matrix& d_y, const AttentionState& state,
                                  Tile tile, const Matrix& d_out) {
  const Matrix dropped =
      drop_gradient(pass.device(), d_y, pass.piece, pass.group.tile_rows(tile).first, key(pass));
  if (out_bias_) out_bias_->backward(dropped);
  const Matrix gathered = pass.group.gather(dropped, tile);
  std::int64_t row = 0;
  for (const Part& run : pass.group.gathered_rows(tile)) {
    out_.backward(pass.device(), state.out.part(run.first, run.count),
                  gathered.part(row, run.count), d_out.part(run.first, run.count));
    row += run.count;
  }
}

Matrix AttentionLayer::in_backward(const Pass& pass, const Matrix& x, AttentionState state,
                                   Matrix d_out) {
  comm::Device& device = pass.device();
  const auto view = [&](const Matrix& matrix) { return heads(pass, matrix); };
  const Matrix dq = like(device, state.q), dk = like(device, state.k), dv = like(device, state.v);
  pass.plan.backward({view(state.q), view(state.k), view(state.v)}, {view(state.out)}, *state.saved,
                     view(d_out), {view(dq), view(dk), view(dv)});
  state = {};
  d_out = {};
  rotate(pass, dq, dk, Turn::backward);
  if (q_bias_) {
    q_bias_->backward(dq);
    k_bias_->backward(dk);
    v_bias_->backward(dv);
  }
  // Only the piece of x was kept: what was gathered of it is gathered again (Megatron-SP).
  const Matrix gathered = pass.group.gather(norm_.forward(device, x));
  const Matrix d_gathered = like(device, gathered);
  q_.backward(device, gathered, dq, d_gathered);
  k_.backward(device, gathered, dk, d_gathered, true);
  v_.backward(device, gathered, dv, d_gathered, true);
  const Matrix d_x = like(device, x);
  norm_.backward(x, pass.group.sum_to_piece(d_gathered), d_x);
  return d_x;
}

}  // namespace ringspan::model
