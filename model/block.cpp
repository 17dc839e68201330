// SPDX-License-Identifier: Apache-2.0
#include "model/block.hpp"

#include <utility>

namespace ringspan::model {
namespace {

Matrix rows(const Matrix& matrix, Part part) { return matrix.part(part.first, part.count); }

}  // namespace

Block::Block(Parameters& parameters, const std::string& name, const ModelConfig& config,
             const MemoryOptions& memory, std::int64_t index)
    : memory_(memory),
      attention_(parameters, name + ".attention", config, 2 * index),
      mlp_(parameters, name + ".mlp", config, 2 * index + 1) {}

Matrix Block::y_tile(const Pass& pass, const Matrix& x, const AttentionState& attention,
                     const Matrix& y, Tile tile) const {
  const Part part = pass.group.tile_rows(tile);
  return y ? rows(y, part) : attention_.out(pass, rows(x, part), attention, tile);
}

Matrix Block::forward(const Pass& pass, const Matrix& x, BlockState* state) const {
  BlockState own;
  // Where attention's forward pass will run again, its backward pass needs nothing of this one.
  const bool keep_attention = state && memory_.recompute != Recompute::full;
  attention_.in(pass, x, own.attention);
  attention_.attend(pass, own.attention, keep_attention);
  if (!memory_.blockwise) own.y = attention_.out(pass, x, own.attention, {});

  const bool keep_mlp = state && memory_.recompute == Recompute::none && !tiled();
  Matrix z;
  if (memory_.mlp_tiles > 1) z = like(pass.device(), x);
  for (Tile tile{0, memory_.mlp_tiles}; tile.index < tile.count; ++tile.index) {
    const Matrix y = y_tile(pass, x, own.attention, own.y, tile);
    const Matrix z_tile = mlp_.forward(pass, y, tile, keep_mlp ? &own.mlp : nullptr);
    if (memory_.mlp_tiles == 1) {
      z = z_tile;
    } else {
      pass.device().copy(rows(z, pass.group.tile_rows(tile)).slice(), z_tile.slice());
    }
  }
  if (state) {
    keep(pass, x, own);
    *state = std::move(own);
  }
  return z;
}

void Block::keep(const Pass& pass, const Matrix& x, BlockState& state) const {
  state.x = Checkpoint(pass.device(), x, memory_.offload);
  if (memory_.recompute == Recompute::full) state.attention = {};
  if (memory_.recompute == Recompute::selective_plus) {
    state.attention.q = state.attention.k = state.attention.v = {};
  }
  const bool keeps_y =
      memory_.recompute == Recompute::none || memory_.recompute == Recompute::selective;
  if (!keeps_y) state.y = {};
}

void Block::restore(const Pass& pass, const Matrix& x, BlockState& state) const {
  if (!state.attention.q) attention_.in(pass, x, state.attention);
  if (!state.attention.out) attention_.attend(pass, state.attention, true);
  if (!state.y && !memory_.blockwise) state.y = attention_.out(pass, x, state.attention, {});
}

Matrix Block::backward(const Pass& pass, BlockState state, Matrix d_z) {
  comm::Device& device = pass.device();
  const Matrix x = state.x.matrix(device);
  restore(pass, x, state);

  Matrix d_out = like(device, state.attention.out);
  Matrix d_y;  // and so what the residual passes on to d_x
  if (memory_.mlp_tiles > 1) d_y = like(device, x);
  for (Tile tile{0, memory_.mlp_tiles}; tile.index < tile.count; ++tile.index) {
    const Part part = pass.group.tile_rows(tile);
    const Matrix y = y_tile(pass, x, state.attention, state.y, tile);
    const Matrix d_tile = mlp_.backward(pass, y, std::move(state.mlp), rows(d_z, part), tile);
    attention_.out_backward(pass, d_tile, state.attention, tile, d_out);
    if (memory_.mlp_tiles == 1) {
      d_y = d_tile;
    } else {
      device.copy(rows(d_y, part).slice(), d_tile.slice());
    }
    state.mlp = {};
  }
  state.y = d_z = {};
  const Matrix d_x = attention_.in_backward(pass, x, std::move(state.attention), std::move(d_out));
  add(d_y, d_x);
  return d_x;
}

}  // namespace ringspan::model
