// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attention/schedule.hpp"
#include "model/bias.hpp"
#include "model/layers/rotary.hpp"
#include "model/linear.hpp"
#include "model/model_config.hpp"
#include "model/norm.hpp"
#include "model/pass.hpp"

namespace ringspan::model {

/// What attention computes on its way: [rows of the shard][this rank's heads * head_dim].
struct AttentionState {
  Matrix q, k, v;  // rotated
  Matrix out;
  std::unique_ptr<attention::Saved> saved;
};

/// y = x + drop(attention(norm(x))), in three steps: in (norm, products, rotary), attend (the
/// schedule), out (product, dropout, residual). Only attend needs the whole sequence; out works on
/// any tile of tokens.
class AttentionLayer {
 public:
  /// `site`: see DropoutKey.
  AttentionLayer(Parameters& parameters, const std::string& name, const ModelConfig& config,
                 std::int64_t site);

  /// Fills q, k, v from x, the rows of the piece.
  void in(const Pass& pass, const Matrix& x, AttentionState& state) const;

  /// Fills out and, if there will be a backward pass, saved.
  void attend(const Pass& pass, AttentionState& state, bool keep) const;

  /// x of this tile -> y of this tile.
  Matrix out(const Pass& pass, const Matrix& x, const AttentionState& state, Tile tile) const;

  /// From d_y of this tile, fills the tile's rows of d_out. The residual passes d_y on to d_x.
  void out_backward(const Pass& pass, const Matrix& d_y, const AttentionState& state, Tile tile,
                    const Matrix& d_out);

  /// From d_out of all rows: d_x, but for what the residual passes on. Uses state and d_out up.
  Matrix in_backward(const Pass& pass, const Matrix& x, AttentionState state, Matrix d_out);

 private:
  DropoutKey key(const Pass& pass) const;
  /// [batch][tokens][this rank's heads][head_dim], as the schedule wants it.
  attention::TensorView heads(const Pass& pass, const Matrix& matrix) const;
  void rotate(const Pass& pass, const Matrix& q, const Matrix& k, Turn turn) const;

  const ModelConfig config_;
  std::int64_t site_;
  Norm norm_;
  Linear q_, k_, v_, out_;
  std::optional<Bias> q_bias_, k_bias_, v_bias_, out_bias_;  // gpt
};

}  // namespace ringspan::model
