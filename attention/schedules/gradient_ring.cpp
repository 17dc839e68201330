// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/gradient_ring.hpp"

#include <algorithm>
#include <utility>

#include "comm/batch.hpp"

namespace ringspan::attention {
namespace {

std::int64_t blocks_needed(bool lends, std::span<const GradientRing::Move> moves) {
  std::int64_t moving = 0;
  for (const GradientRing::Move& move : moves) {
    const std::int64_t outgoing = move.sent > 0;
    const std::int64_t incoming = lends ? 0 : (move.received > 0) + (move.home > 0);
    moving = std::max(moving, outgoing + incoming);
  }
  return 1 + moving;
}

}  // namespace

GradientRing::GradientRing(comm::Communicator comm, Kernels& kernels, const KvFormat& format,
                           std::int64_t tokens, std::span<const Move> moves)
    : comm_(std::move(comm)), kernels_(kernels), format_(format) {
  for (std::int64_t block = blocks_needed(comm_.lends(), moves); block > 0; --block) {
    free_.push_back(comm_.device().allocate(format_.bytes(tokens)));
  }
}

void GradientRing::begin(const KvBlock& own) {
  own_ = own;
  kernels_.fill(own.k, 0);
  kernels_.fill(own.v, 0);
}

KvBlock GradientRing::share(std::int64_t tokens) {
  share_ = take();
  share_tokens_ = tokens;
  const KvBlock share = format_.block(share_.data(), tokens);
  kernels_.fill(share.k, 0);
  kernels_.fill(share.v, 0);
  return share;
}

void GradientRing::add_share() {
  if (!share_) return;  // nothing seen: the gradient passes through
  if (!held_) {
    held_ = std::move(share_);
    return;
  }
  const KvBlock share = format_.block(share_.data(), share_tokens_);
  const KvBlock gradient = format_.block(held_.data(), share_tokens_);
  kernels_.accumulate(share.k, gradient.k);
  kernels_.accumulate(share.v, gradient.v);
  free_.push_back(std::move(share_));
}

void GradientRing::start(const Move& move) {
  if (held_ && move.sent == 0) deliver(std::move(held_));  // nobody else sees it
  const bool lends = comm_.lends();
  if (!lends && move.received > 0) incoming_ = take();
  if (!lends && move.home > 0) home_ = take();

  comm::Batch batch;
  batch.receive(comm_.prev(), comm::slice(incoming_, 0, move.received),
                lends ? &incoming_ : nullptr);
  batch.receive(move.home_from, comm::slice(home_, 0, move.home), lends ? &home_ : nullptr);
  if (!lends) outgoing_ = held_;
  batch.send(move.sent_to, comm::slice(std::move(held_), 0, move.sent));
  in_flight_ = std::move(batch).post(comm_, "kv_gradients");
}

void GradientRing::finish() {
  in_flight_.wait();
  if (outgoing_) free_.push_back(std::move(outgoing_));
  held_ = std::move(incoming_);
  if (home_) deliver(std::move(home_));
}

comm::Buffer GradientRing::take() {
  comm::Buffer block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void GradientRing::deliver(comm::Buffer gradient) {
  const KvBlock home = format_.block(gradient.data(), own_.k.tokens);
  kernels_.copy(home.k, own_.k);
  kernels_.copy(home.v, own_.v);
  free_.push_back(std::move(gradient));
}

}  // namespace ringspan::attention
