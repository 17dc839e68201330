// SPDX-License-Identifier: Apache-2.0
#include "model/mlp.hpp"

#include <utility>

#include "model/layers/gelu.hpp"
#include "model/layers/swiglu.hpp"

namespace ringspan::model {

Mlp::Mlp(Parameters& parameters, const std::string& name, const ModelConfig& config,
         std::int64_t site)
    : config_(config),
      site_(site),
      norm_(parameters, name + ".norm", config),
      up_(parameters, name + ".up", config.hidden, config.mlp_hidden, Cut::columns,
          config.weight_deviation),
      down_(parameters, name + ".down", config.mlp_hidden, config.hidden, Cut::rows,
            config.residual_deviation()) {
  if (config.variant == Variant::llama) {
    gate_.emplace(parameters, name + ".gate", config.hidden, config.mlp_hidden, Cut::columns,
                  config.weight_deviation);
  } else {
    up_bias_.emplace(parameters, name + ".up.bias", config.mlp_hidden, Cut::columns);
    down_bias_.emplace(parameters, name + ".down.bias", config.hidden, Cut::none);
  }
}

DropoutKey Mlp::key(const Pass& pass) const {
  return {config_.dropout, config_.seed, pass.step, site_};
}

MlpState Mlp::in(const Pass& pass, const Matrix& gathered) const {
  MlpState state{up_.forward(pass.device(), gathered), {}};
  if (up_bias_) up_bias_->forward(state.up);
  if (gate_) state.gate = gate_->forward(pass.device(), gathered);
  return state;
}

Matrix Mlp::activate(const Pass& pass, const MlpState& state) const {
  const Matrix active = like(pass.device(), state.up);
  if (gate_) {
    swiglu(state.gate, state.up, active);
  } else {
    gelu(state.up, active);
  }
  return active;
}

Matrix Mlp::forward(const Pass& pass, const Matrix& y, Tile tile, MlpState* state) const {
  MlpState own = in(pass, pass.group.gather(norm_.forward(pass.device(), y), tile));
  const Matrix z = pass.group.sum_to_piece(down_.forward(pass.device(), activate(pass, own)), tile);
  if (down_bias_) down_bias_->forward(z);
  drop(z, pass.piece, pass.group.tile_rows(tile).first, key(pass));
  add(y, z);
  if (state) *state = std::move(own);
  return z;
}

Matrix Mlp::backward(const Pass& pass, const Matrix& y, MlpState state, const Matrix& d_z,
                     Tile tile) {
  comm::Device& device = pass.device();
  const Matrix gathered = pass.group.gather(norm_.forward(device, y), tile);
  if (!state.up) state = in(pass, gathered);

  const Matrix dropped =
      drop_gradient(device, d_z, pass.piece, pass.group.tile_rows(tile).first, key(pass));
  if (down_bias_) down_bias_->backward(dropped);
  const Matrix d_active = like(device, state.up);
  down_.backward(device, activate(pass, state), pass.group.gather(dropped, tile), d_active);

  const Matrix d_gathered = in_backward(pass, gathered, state, d_active);
  const Matrix d_y = like(device, y);
  norm_.backward(y, pass.group.sum_to_piece(d_gathered, tile), d_y);
  add(d_z, d_y);
  return d_y;
}

Matrix Mlp::in_backward(const Pass& pass, const Matrix& gathered, const MlpState& state,
                        const Matrix& d_active) {
  comm::Device& device = pass.device();
  const Matrix d_gathered = like(device, gathered), d_up = like(device, state.up);
  if (gate_) {
    const Matrix d_gate = like(device, state.gate);
    swiglu_backward(state.gate, state.up, d_active, d_gate, d_up);
    gate_->backward(device, gathered, d_gate, d_gathered);
  } else {
    gelu_backward(state.up, d_active, d_up);
    up_bias_->backward(d_up);
  }
  up_.backward(device, gathered, d_up, d_gathered, gate_.has_value());
  return d_gathered;
}

}  // namespace ringspan::model
