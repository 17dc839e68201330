// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/split_evenly.hpp"
#include "model/matrix.hpp"

namespace ringspan::model {

/// Tile `index` of `count` tiles: a near-equal part of the tokens of every rank of a tensor group.
/// So all ranks have as many tiles, and take part in as many exchanges.
struct Tile {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// The ranks that share a layer's heads and columns (Megatron-SP, Korthikanti et al. 2022). A shard
/// of the sequence is cut once more among them: outside attention and MLP a rank has a piece of its
/// tokens with all features; inside it has all tokens of the shard with its features. Gathering
/// pieces and summing into pieces are each other's gradient.
class TensorGroup {
 public:
  /// `tokens` of the shard, the same on all ranks of `comm`.
  TensorGroup(comm::Communicator comm, std::int64_t tokens, std::int64_t batch)
      : comm_(std::move(comm)), tokens_(tokens), batch_(batch) {}

  comm::Device& device() const { return comm_.device(); }
  std::int64_t rows() const { return tokens_ * batch_; }   // of the shard
  Part piece() const { return piece_rows(comm_.rank()); }  // this rank's rows among them
  Part tile_rows(Tile tile) const { return tile_rows(tile, comm_.rank()); }  // within the piece

  /// The rows of the shard that a tile holds, gathered, in order: as runs, and how many.
  std::vector<Part> gathered_rows(Tile tile) const;
  std::int64_t gathered_count(Tile tile) const;

  /// Collective. [rows of this rank's tile][features] -> [rows of all ranks' tiles][features]. The
  /// result is read only: in a group of one it is `piece`.
  Matrix gather(const Matrix& piece, Tile tile = {}) const;

  /// Collective. The sum over the ranks of `whole`, [rows of all ranks' tiles][features], of which
  /// this rank keeps the rows of its tile. `whole` is used up.
  Matrix sum_to_piece(const Matrix& whole, Tile tile = {}) const;

 private:
  Part piece_rows(int rank) const;
  Part tile_rows(Tile tile, int rank) const;
  std::vector<comm::Slice> parts(const Matrix& whole, Tile tile) const;

  comm::Communicator comm_;
  std::int64_t tokens_, batch_;
};

}  // namespace ringspan::model
