// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "model/bias.hpp"
#include "model/linear.hpp"
#include "model/model_config.hpp"
#include "model/norm.hpp"
#include "model/pass.hpp"

namespace ringspan::model {

/// What the MLP keeps: inputs of its activation, [rows][this rank's part of mlp_hidden]. What the
/// activation makes of them is computed again.
struct MlpState {
  Matrix up;
  Matrix gate;  // llama
};

/// z = y + drop(mlp(norm(y))), SwiGLU or GELU, of any tile of tokens.
class Mlp {
 public:
  Mlp(Parameters& parameters, const std::string& name, const ModelConfig& config,
      std::int64_t site);

  /// `state` is filled for the backward pass; null where that computes it again.
  Matrix forward(const Pass& pass, const Matrix& y, Tile tile, MlpState* state) const;

  /// d_z -> d_y, residual included. An empty state is computed again from y.
  Matrix backward(const Pass& pass, const Matrix& y, MlpState state, const Matrix& d_z, Tile tile);

 private:
  DropoutKey key(const Pass& pass) const;
  MlpState in(const Pass& pass, const Matrix& gathered) const;
  Matrix activate(const Pass& pass, const MlpState& state) const;
  /// Through activation and first products, from the gradient of what activate() returned.
  Matrix in_backward(const Pass& pass, const Matrix& gathered, const MlpState& state,
                     const Matrix& d_active);

  const ModelConfig config_;
  std::int64_t site_;
  Norm norm_;
  Linear up_, down_;
  std::optional<Linear> gate_;               // llama
  std::optional<Bias> up_bias_, down_bias_;  // gpt
};

}  // namespace ringspan::model
