// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_group.hpp"

#include "comm/collectives.hpp"

namespace ringspan::model {

Part TensorGroup::piece_rows(int rank) const {
  const Part tokens = split_evenly(tokens_, comm_.size(), rank);
  return {tokens.first * batch_, tokens.count * batch_};
}

Part TensorGroup::tile_rows(Tile tile, int rank) const {
  const Part tokens = split_evenly(piece_rows(rank).count / batch_, tile.count, tile.index);
  return {tokens.first * batch_, tokens.count * batch_};
}

std::vector<Part> TensorGroup::gathered_rows(Tile tile) const {
  std::vector<Part> runs;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Part within = tile_rows(tile, rank);
    const Part run{piece_rows(rank).first + within.first, within.count};
    if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
      runs.back().count += run.count;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

std::int64_t TensorGroup::gathered_count(Tile tile) const {
  std::int64_t count = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) count += tile_rows(tile, rank).count;
  return count;
}

std::vector<comm::Slice> TensorGroup::parts(const Matrix& whole, Tile tile) const {
  std::vector<comm::Slice> parts;
  std::int64_t row = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const std::int64_t count = tile_rows(tile, rank).count;
    parts.push_back(whole.part(row, count).slice());
    row += count;
  }
  return parts;
}

Matrix TensorGroup::gather(const Matrix& piece, Tile tile) const {
  if (comm_.size() == 1) return piece;
  const Matrix whole(comm_.device(), piece.dtype(), gathered_count(tile), piece.columns());
  const std::vector<comm::Slice> slices = parts(whole, tile);
  comm_.device().copy(slices[comm_.rank()], piece.slice());
  comm::all_gather(comm_, slices);
  return whole;
}

Matrix TensorGroup::sum_to_piece(const Matrix& whole, Tile tile) const {
  if (comm_.size() == 1) return whole;
  const std::vector<comm::Slice> slices = parts(whole, tile);
  comm::reduce_scatter(comm_, slices, attention::element(whole.dtype()));
  const comm::Slice& own = slices[comm_.rank()];
  const Matrix piece(comm_.device(), whole.dtype(), tile_rows(tile).count, whole.columns());
  comm_.device().copy(piece.slice(), own);
  return piece;
}

}  // namespace ringspan::model
