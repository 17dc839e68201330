// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/model_config.hpp"
#include "model/parameters.hpp"

namespace ringspan::model {

/// The normalisation before a sublayer: RMSNorm for llama, LayerNorm for gpt. It keeps nothing: its
/// backward pass computes moments and normalised values again from x.
class Norm {
 public:
  Norm(Parameters& parameters, const std::string& name, const ModelConfig& config);

  Matrix forward(comm::Device& device, const Matrix& x) const;
  /// Adds to the parameters' gradients; d_x is overwritten.
  void backward(const Matrix& x, const Matrix& d_y, const Matrix& d_x);

 private:
  double epsilon_;
  Parameter& weight_;
  Parameter* bias_ = nullptr;  // LayerNorm's
};

}  // namespace ringspan::model
