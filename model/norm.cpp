// SPDX-License-Identifier: Apache-2.0
#include "model/norm.hpp"

#include "model/layers/layer_norm.hpp"
#include "model/layers/rms_norm.hpp"

namespace ringspan::model {

Norm::Norm(Parameters& parameters, const std::string& name, const ModelConfig& config)
    : epsilon_(config.norm_epsilon),
      weight_(parameters.add({name + ".weight", 1, config.hidden, Cut::none, {1, 0}})) {
  if (config.variant == Variant::gpt) {
    bias_ = &parameters.add({name + ".bias", 1, config.hidden, Cut::none, {}});
  }
}

Matrix Norm::forward(comm::Device& device, const Matrix& x) const {
  const Matrix y = like(device, x);
  if (bias_) {
    layer_norm(x, weight_.value, bias_->value, epsilon_, y);
  } else {
    rms_norm(x, weight_.value, epsilon_, y);
  }
  return y;
}

void Norm::backward(const Matrix& x, const Matrix& d_y, const Matrix& d_x) {
  if (bias_) {
    layer_norm_backward(x, weight_.value, epsilon_, d_y, d_x, weight_.gradient, bias_->gradient);
  } else {
    rms_norm_backward(x, weight_.value, epsilon_, d_y, d_x, weight_.gradient);
  }
}

}  // namespace ringspan::model
