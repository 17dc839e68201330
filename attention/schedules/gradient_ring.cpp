// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/gradient_ring.hpp"

#include <algorithm>
#include <cstddef>
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

GradientRing::GradientRing(comm::Communicator comm, Kernels& kernels, GradientFormat format,
                           std::int64_t tokens, std::span<const Move> moves,
                           comm::Direction direction, Delivery delivery)
    : comm_(std::move(comm)),
      kernels_(kernels),
      format_(std::move(format)),
      direction_(direction),
      delivery_(delivery) {
  for (std::int64_t block = blocks_needed(comm_.lends(), moves); block > 0; --block) {
    free_.push_back(comm_.device().allocate(format_.bytes(tokens)));
  }
}

GradientBlock GradientRing::share(std::int64_t tokens) {
  share_ = take();
  share_tokens_ = tokens;
  fill_with_zeros(share_, format_.bytes(tokens));
  return format_.block(share_.data(), tokens);
}

void GradientRing::add_share() {
  if (!share_) return;  // nothing seen: the gradient passes through
  if (!held_) {
    held_ = std::move(share_);
    return;
  }
  const GradientBlock share = format_.block(share_.data(), share_tokens_);
  const GradientBlock gradient = format_.block(held_.data(), share_tokens_);
  for (std::size_t part = 0; part < share.size(); ++part) {
    kernels_.accumulate(share[part], gradient[part]);
  }
  free_.push_back(std::move(share_));
}

void GradientRing::start(const Move& move) {
  if (!held_ && move.sent > 0) {  // its owner has no share in it
    held_ = take();
    fill_with_zeros(held_, move.sent);
  }
  if (held_ && move.sent == 0) deliver(std::move(held_));  // nobody else sees it
  const bool lends = comm_.lends();
  if (!lends && move.received > 0) incoming_ = take();
  if (!lends && move.home > 0) home_ = take();

  const bool forwards = direction_ == comm::Direction::to_next;
  comm::Batch batch;
  batch.receive(forwards ? comm_.prev() : comm_.next(), comm::slice(incoming_, 0, move.received),
                lends ? &incoming_ : nullptr);
  batch.receive(move.home_from, comm::slice(home_, 0, move.home), lends ? &home_ : nullptr);
  if (!lends) outgoing_ = held_;
  batch.send(move.sent_to, comm::slice(std::move(held_), 0, move.sent));
  in_flight_ = std::move(batch).post(comm_, format_.name);
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

void GradientRing::fill_with_zeros(const comm::Buffer& block, std::int64_t bytes) {
  const std::int64_t elements = bytes / element_bytes(format_.dtype);
  kernels_.fill(TensorView::packed(block.data(), format_.dtype, 1, 1, 1, elements), 0);
}

void GradientRing::deliver(comm::Buffer gradient) {
  const GradientBlock home = format_.block(gradient.data(), own_.front().tokens);
  for (std::size_t part = 0; part < home.size(); ++part) {
    if (delivery_ == Delivery::added) {
      kernels_.accumulate(home[part], own_[part]);
    } else {
      kernels_.copy(home[part], own_[part]);
    }
  }
  free_.push_back(std::move(gradient));
}

}  // namespace ringspan::attention
