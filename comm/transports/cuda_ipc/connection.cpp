// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/connection.hpp"

#include <iterator>
#include <utility>

#include "comm/devices/cuda/copy.hpp"
#include "comm/transports/cuda_ipc/exports.hpp"

namespace ringspan::comm::cuda_ipc {
Flags::Flags(std::shared_ptr<const cuda::Gpu> gpu, std::shared_ptr<const Lanes> lanes)
    : gpu_(std::move(gpu)), lanes_(std::move(lanes)) {
  const cuda::Current current(*gpu_);
  const cuda::Api& api = gpu_->api();
  gpu_->check(api.register_host(lanes_->flags(), lanes_->flag_bytes(), cuda::kHostRegisterMapped),
              "cuMemHostRegister");
  gpu_->check(api.host_address(&address_, lanes_->flags(), 0), "cuMemHostGetDevicePointer");
}

Flags::~Flags() {
  const cuda::Current current(*gpu_);
  gpu_->api().unregister_host(lanes_->flags());
}

Connection::Connection(std::shared_ptr<Lanes> lanes, std::shared_ptr<const Flags> flags,
                       const std::shared_ptr<const cuda::Gpu>& gpu, int ranks, int rank,
                       bool strict, std::optional<Apart> apart)
    : streams::Connection(std::move(lanes), rank),
      flags_(std::move(flags)),
      gpu_(gpu),
      ranks_(ranks),
      strict_(strict),
      apart_(apart.has_value()),
      descriptors_(apart_ && apart->descriptors),
      process_(apart_ ? rank : 0),
      pool_(std::make_shared<Pool>(gpu, apart_)),
      imports_(gpu, apart_ ? apart->take : Imports::TakeDescriptor()),
      incoming_(gpu),
      forked_(gpu),
      joined_(gpu),
      last_sent_(ranks),
      last_awaited_(ranks) {
  for (auto* last : {&last_sent_, &last_awaited_})
    for (auto& number : *last) number = -1;
}

// What stands in for memory that is not of the pool, the operation holds until it is over.
void Connection::show(Operation& operation, const Message& message, Half& half) const {
  const Slice& slice = message.slice;
  half.place = {.process = process_,
                .base = reinterpret_cast<cuda::Address>(slice.buffer.data()),
                .bytes = slice.buffer.bytes(),
                .offset = slice.offset,
                .rows = slice.rows,
                .row_bytes = slice.row_bytes,
                .stride = slice.stride};
  if (slice.bytes() == 0 || pool_->describe(slice.data(), half.place)) return;
  if (!apart_ || message.peer == rank_) return;
  if (auto handle = export_allocation(*gpu_, slice, descriptors_, half.place)) {
    operation.held.push_back(std::move(handle));
    return;
  }
  const std::int64_t bytes = slice.bytes();
  const std::shared_ptr<std::byte> memory = pool_->allocate(bytes);
  operation.held.push_back(memory);
  half.staging = whole(Buffer(memory.get(), bytes, {}));
  half.place = {.process = process_, .rows = 1, .row_bytes = bytes, .stride = bytes};
  pool_->describe(memory.get(), half.place);
}

std::optional<Error> Connection::announce(Operation& operation) {
  std::optional<Error> wrong;
  halves_.clear();
  for (auto* messages : {&operation.recvs, &operation.sends}) {
    for (Message& message : *messages) {
      Half half;
      show(operation, message, half);
      streams::Offer mine = offer(operation, message);
      mine.place = half.place;
      (message.sends ? last_sent_ : last_awaited_)[message.peer] = message.number;
      const auto other = lanes_->announce(side(message), message.number, mine);
      if (other && !wrong) wrong = mismatch(rank_, message, mine, *other, strict_);
      if (other && !wrong) half = {false, {}, {}, reach(operation, other->place)};
      message.place = std::ssize(halves_);
      halves_.push_back(std::move(half));
    }
  }
  return wrong;
}

Slice Connection::reach(Operation& operation, const Place& place) {
  auto* base = reinterpret_cast<std::byte*>(place.base);
  if (place.process != process_ && place.rows * place.row_bytes > 0) {
    try {
      const std::shared_ptr<const std::byte> memory = imports_.open(place);
      operation.held.push_back(memory);
      base = const_cast<std::byte*>(memory.get());
    } catch (const Error& error) {
      throw Error(error.kind(), error.what(), {rank_, static_cast<int>(place.process)});
    }
  }
  const Slice slice{Buffer(base, place.bytes, {}), place.offset, place.rows, place.row_bytes,
                    place.stride};
  if (slice.bytes() > 0) require_inside(slice);
  return slice;
}

void Connection::set(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const {
  stream.write_value(flags_->address(lanes_->offset(side(message), flag)),
                     Lanes::value(message.number));
}

void Connection::wait(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const {
  stream.wait_value(flags_->address(lanes_->offset(side(message).other(), flag)),
                    Lanes::value(message.number));
}

void Connection::copy(const cuda::Stream& stream, const Message& message) const {
  wait(stream, message, Lanes::Flag::ready);
  const Slice& other = halves_[message.place].other;
  cuda::queue_copy(stream, message.sends ? other : message.slice,
                   message.sends ? message.slice : other);
  set(stream, message, Lanes::Flag::complete);
}

template <typename Call>
void Connection::each(const Operation& operation, bool first, const Call& call) const {
  for (const auto* messages : {&operation.recvs, &operation.sends})
    for (const Message& message : *messages)
      if (halves_[message.place].first == first) call(message);
}

// All flags first, all waits for others last: no message of the batch waits for another.
void Connection::begin(Operation& operation, const cuda::Stream& stream) {
  each(operation, true, [&](const Message& message) {
    const Slice& staging = halves_[message.place].staging;
    if (message.sends && staging.buffer) cuda::queue_copy(stream, staging, message.slice);
    set(stream, message, Lanes::Flag::ready);
  });
  stream.record(forked_);
  incoming_.wait(forked_);
  each(operation, false,
       [&](const Message& message) { copy(message.sends ? stream : incoming_, message); });
  incoming_.record(joined_);
  stream.wait(joined_);
  each(operation, true,
       [&](const Message& message) { wait(stream, message, Lanes::Flag::complete); });
}

void Connection::end(Operation& operation, const cuda::Stream& stream) {
  each(operation, true, [&](const Message& message) {
    const Slice& staging = halves_[message.place].staging;
    if (!message.sends && staging.buffer) cuda::queue_copy(stream, message.slice, staging);
  });
  halves_.clear();
}

// First of two phases: owners free their memory once all have closed it.
void Connection::destroy() { imports_.close_unused(); }

// Again and again: a peer's GPU may still set a flag to what it was about to.
void Connection::abort() noexcept {
  aborted_ = true;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (last_sent_[peer] >= 0) lanes_->poison({rank_, peer, true}, last_sent_[peer]);
    if (last_awaited_[peer] >= 0) lanes_->poison({peer, rank_, false}, last_awaited_[peer]);
  }
}

}  // namespace ringspan::comm::cuda_ipc
