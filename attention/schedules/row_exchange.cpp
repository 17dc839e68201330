// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/row_exchange.hpp"

#include <numeric>
#include <utility>

namespace ringspan::attention {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& values, std::size_t count) {
  return std::accumulate(values.begin(), values.begin() + count, std::int64_t{0});
}
std::int64_t sum(const std::vector<std::int64_t>& values) { return sum(values, values.size()); }

std::vector<comm::Slice> token_slices(const RowExchange::Sizes& sizes, int rank,
                                      const comm::Buffer& buffer) {
  std::vector<comm::Slice> slices;
  for (std::size_t peer = 0; peer < sizes.row_bytes.size(); ++peer) {
    slices.push_back({buffer, sum(sizes.row_bytes, peer), sizes.batch * sizes.tokens[rank],
                      sizes.row_bytes[peer], sum(sizes.row_bytes)});
  }
  return slices;
}

std::vector<comm::Slice> head_slices(const RowExchange::Sizes& sizes, int rank,
                                     const comm::Buffer& buffer) {
  const std::int64_t row = sizes.row_bytes[rank];
  std::vector<comm::Slice> slices;
  for (std::size_t peer = 0; peer < sizes.tokens.size(); ++peer) {
    slices.push_back({buffer, sum(sizes.tokens, peer) * row, sizes.batch, sizes.tokens[peer] * row,
                      sum(sizes.tokens) * row});
  }
  return slices;
}

comm::AllToAll make_all_to_all(const comm::Communicator& comm, const RowExchange::Sizes& sizes,
                               RowExchange::Direction direction, comm::AllToAllAlgorithm algorithm,
                               const comm::Buffer& token_side, const comm::Buffer& head_side) {
  std::vector<comm::Slice> tokens = token_slices(sizes, comm.rank(), token_side);
  std::vector<comm::Slice> heads = head_slices(sizes, comm.rank(), head_side);
  if (direction == RowExchange::Direction::to_tokens) std::swap(tokens, heads);
  return comm::AllToAll(comm, std::move(tokens), std::move(heads), algorithm);
}

}  // namespace

TensorView PackedRows::tensor(std::int64_t offset, DType dtype, std::int64_t heads,
                              std::int64_t head_dim) const {
  TensorView view = TensorView::packed(data + offset, dtype, batch, tokens, heads, head_dim);
  view.token_stride = stride / element_bytes(dtype);
  view.batch_stride = tokens * view.token_stride;
  return view;
}

std::int64_t RowExchange::Sizes::token_side_bytes(int rank) const {
  return batch * tokens[rank] * sum(row_bytes);
}

std::int64_t RowExchange::Sizes::head_side_bytes(int rank) const {
  return batch * sum(tokens) * row_bytes[rank];
}

RowExchange::RowExchange(const comm::Communicator& comm, Sizes sizes, Direction direction,
                         comm::AllToAllAlgorithm algorithm, comm::Buffer token_side,
                         comm::Buffer head_side)
    : sizes_(std::move(sizes)),
      rank_(comm.rank()),
      token_side_(std::move(token_side)),
      head_side_(std::move(head_side)),
      all_to_all_(make_all_to_all(comm, sizes_, direction, algorithm, token_side_, head_side_)) {}

PackedRows RowExchange::token_side(int rank) const {
  return {token_side_.data() + sum(sizes_.row_bytes, rank), sum(sizes_.row_bytes), sizes_.batch,
          sizes_.tokens[rank_]};
}

PackedRows RowExchange::head_side() const {
  return {head_side_.data(), sizes_.row_bytes[rank_], sizes_.batch, sum(sizes_.tokens)};
}

void RowExchange::start() { all_to_all_.start(); }
void RowExchange::finish() { all_to_all_.finish(); }

}  // namespace ringspan::attention
