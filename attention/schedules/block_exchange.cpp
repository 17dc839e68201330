// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/block_exchange.hpp"

#include <algorithm>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

void last_becomes_first(std::vector<comm::Buffer>& buffers) {
  std::rotate(buffers.begin(), buffers.end() - 1, buffers.end());
}

}  // namespace

BlockExchange::BlockExchange(comm::Communicator comm, std::int64_t bytes_per_token, Blocks sent,
                             Blocks received)
    : comm_(std::move(comm)), bytes_per_token_(bytes_per_token), received_(received.count) {
  const auto allocate = [&](std::int64_t tokens) {
    return comm_.device().allocate(tokens * bytes_per_token);
  };
  for (int block = 0; block < sent.count; ++block) sent_.push_back(allocate(sent.tokens));
  if (comm_.lends()) return;
  for (comm::Buffer& buffer : received_) buffer = allocate(received.tokens);
}

std::byte* BlockExchange::write() {
  last_becomes_first(sent_);
  if (comm_.lends()) comm_.reclaim(sent_.front());
  return sent_.front().data();
}

void BlockExchange::add_to(comm::Batch& batch, int to, std::int64_t sent, int from,
                           std::int64_t received) {
  comm::Buffer& filled = received_.back();
  if (comm_.lends()) filled = {};
  batch.receive(from, comm::slice(filled, 0, received * bytes_per_token_),
                comm_.lends() ? &filled : nullptr);
  batch.send(to, comm::slice(sent_.front(), 0, sent * bytes_per_token_));
}

void BlockExchange::receive() { last_becomes_first(received_); }

std::byte* BlockExchange::held() const {
  if (!received_.front()) throw Error(ErrorKind::aborted, "a block is used that has not come");
  return received_.front().data();
}

void BlockExchange::end() {
  if (!comm_.lends()) return;
  for (comm::Buffer& buffer : received_) buffer = {};
}

}  // namespace ringspan::attention
