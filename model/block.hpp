// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/attention_layer.hpp"
#include "model/checkpoint.hpp"
#include "model/memory_options.hpp"
#include "model/mlp.hpp"

namespace ringspan::model {

/// What one block keeps from its forward pass for its backward pass: as the memory options say.
struct BlockState {
  Checkpoint x;
  AttentionState attention;
  Matrix y;  // between attention and MLP
  MlpState mlp;
};

/// A transformer block: y = x + attention(norm(x)), z = y + mlp(norm(y)).
class Block {
 public:
  Block(Parameters& parameters, const std::string& name, const ModelConfig& config,
        const MemoryOptions& memory, std::int64_t index);

  /// x -> z. `state` is filled for the backward pass; null when there will be none.
  Matrix forward(const Pass& pass, const Matrix& x, BlockState* state) const;

  /// d_z -> d_x. Adds to the parameters' gradients. Uses state and d_z up.
  Matrix backward(const Pass& pass, BlockState state, Matrix d_z);

 private:
  bool tiled() const { return memory_.blockwise || memory_.mlp_tiles > 1; }
  /// The rows of y that the tile's MLP works on: of `y`, or of x by attention's projection.
  Matrix y_tile(const Pass& pass, const Matrix& x, const AttentionState& attention, const Matrix& y,
                Tile tile) const;
  /// Leaves in `state` what the memory options say.
  void keep(const Pass& pass, const Matrix& x, BlockState& state) const;
  /// What keep() has dropped of attention, again.
  void restore(const Pass& pass, const Matrix& x, BlockState& state) const;

  MemoryOptions memory_;
  AttentionLayer attention_;
  Mlp mlp_;
};

}  // namespace ringspan::model
