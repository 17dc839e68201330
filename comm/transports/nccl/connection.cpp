// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/nccl/connection.hpp"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/devices/cuda/copy.hpp"
#include "comm/devices/cuda/host_clock.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::nccl {
namespace {

constexpr double kMoment = 1;  // seconds, in which an abort is over if no kernel holds it up

}  // namespace

Connection::Connection(std::shared_ptr<const Api> api, std::shared_ptr<const cuda::Gpu> gpu,
                       std::shared_ptr<Lanes> lanes, const UniqueId& id, int ranks, int rank,
                       bool strict)
    : streams::Connection(std::move(lanes), rank),
      api_(std::move(api)),
      gpu_(std::move(gpu)),
      strict_(strict) {
  const cuda::Current current(*gpu_);
  Config config;
  config.blocking = 0;
  check(api_->init_rank(&handle_, ranks, id, rank, &config), "ncclCommInitRankConfig");
}

Connection::~Connection() {
  abort();
  const double start = cuda::host_seconds();
  while (!idle() && cuda::host_seconds() - start < kMoment)
    std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(0)));
}

// NCCL compares nothing: a size that differs hangs, and an order that differs swaps messages. So
// whoever posts the second half of a message is told what does not fit before NCCL sees it.
std::optional<Error> Connection::announce(Operation& operation) {
  std::optional<Error> wrong;
  for (const auto* messages : {&operation.recvs, &operation.sends}) {
    for (const Message& message : *messages) {
      const streams::Offer mine = offer(operation, message);
      const auto other = lanes_->announce(side(message), message.number, mine);
      if (other && !wrong) wrong = mismatch(rank_, message, mine, *other, strict_);
    }
  }
  return wrong;
}

// NCCL knows neither rows nor empty messages: rows are packed into memory of the transfer stream,
// and an empty message carries one byte, so that it is waited for like any other.
Slice Connection::packing(const Slice& slice) const {
  const bool needed = !slice.contiguous() && slice.bytes() > 0;
  return needed ? whole(staging_->allocate(slice.bytes())) : Slice{};
}

// Not with the first batch: a graph that it is part of would have to release what it allocates.
void Connection::open(const cuda::Stream& stream) {
  staging_ = std::make_shared<cuda::Memory>(stream.shared_from_this(), cuda::Allocator{}, false);
  token_sent_ = staging_->allocate(1);
  token_received_ = staging_->allocate(1);
}

void Connection::begin(Operation& operation, const cuda::Stream& stream) {
  std::vector<Part> sends, recvs;
  const auto part = [](const Message& message, const Buffer& token, const Slice& rows) {
    if (message.slice.bytes() == 0) return Part{message.peer, token.data(), 1};
    const Slice& slice = rows.buffer ? rows : message.slice;
    return Part{message.peer, slice.data(), slice.bytes()};
  };
  packed_.clear();
  for (const Message& message : operation.sends) {
    packed_.push_back(packing(message.slice));
    if (packed_.back().buffer) cuda::queue_copy(stream, packed_.back(), message.slice);
    sends.push_back(part(message, token_sent_, packed_.back()));
  }
  unpacked_.clear();
  for (const Message& message : operation.recvs) {
    unpacked_.push_back(packing(message.slice));
    recvs.push_back(part(message, token_received_, unpacked_.back()));
  }
  exchange(sends, recvs, stream);
}

void Connection::end(Operation& operation, const cuda::Stream& stream) {
  for (std::size_t i = 0; i < unpacked_.size(); ++i)
    if (unpacked_[i].buffer) cuda::queue_copy(stream, operation.recvs[i].slice, unpacked_[i]);
  packed_.clear();
  unpacked_.clear();
}

bool Connection::ready() const {
  const std::lock_guard lock(mutex_);
  if (!handle_) return false;
  Status state = kSuccess;
  check(api_->async_error(handle_, &state), "ncclCommGetAsyncError");
  if (state == kInProgress) return false;
  check(state, "NCCL");
  return true;
}

void Connection::exchange(std::span<const Part> sends, std::span<const Part> recvs,
                          const cuda::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (!handle_) return;  // the failure is reported by whoever waits
  const cuda::Current current(*gpu_);
  check(api_->group_start(), "ncclGroupStart");
  Status first = kSuccess;
  const auto keep_first = [&](Status status) { first = first == kSuccess ? status : first; };
  for (const Part& part : recvs)
    keep_first(api_->receive(part.data, part.bytes, kBytes, part.peer, handle_, stream.handle()));
  for (const Part& part : sends)
    keep_first(api_->send(part.data, part.bytes, kBytes, part.peer, handle_, stream.handle()));
  const Status end = api_->group_end();  // also after a failure, or the thread stays in the group
  check(first, "ncclSend or ncclRecv");
  check(end, "ncclGroupEnd");
}

void Connection::finalize() {
  const std::lock_guard lock(mutex_);
  if (!handle_) return;
  const cuda::Current current(*gpu_);
  check(api_->finalize(handle_), "ncclCommFinalize");
}

void Connection::destroy() {
  const std::lock_guard lock(mutex_);
  if (!handle_) return;
  const cuda::Current current(*gpu_);
  check(api_->destroy(std::exchange(handle_, nullptr)), "ncclCommDestroy");
}

// NCCL returns once all that it has queued has run: never, behind a kernel that does not end. So a
// thread of its own calls it, which is left behind then, with all that the call needs.
void Connection::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (!handle_) return;
  const auto call = [api = api_, gpu = gpu_, handle = handle_, over = abort_over_] {
    try {
      const cuda::Current current(*gpu);  // or CUDA makes a context on the first GPU
      api->abort(handle);
    } catch (const Error&) {  // the GPU has failed, and nothing runs there any more
    }
    *over = true;
  };
  aborting_ = true;
  try {
    std::thread(call).detach();
    handle_ = nullptr;
  } catch (const std::exception&) {  // no thread now, but perhaps at the next call
    aborting_ = false;
  }
}

void Connection::check(Status status, const char* call) const {
  nccl::check(*api_, status, handle_, call);
}

}  // namespace ringspan::comm::nccl
