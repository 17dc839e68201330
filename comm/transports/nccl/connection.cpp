// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/nccl/connection.hpp"

#include <utility>

#include "comm/error.hpp"

namespace ringspan::comm::nccl {
namespace {

constexpr Status kRemoteError = 6;  // ncclRemoteError

}  // namespace

Connection::Connection(std::shared_ptr<const Api> api, std::shared_ptr<const cuda::Gpu> gpu,
                       const UniqueId& id, int ranks, int rank)
    : api_(std::move(api)), gpu_(std::move(gpu)) {
  const cuda::Current current(*gpu_);
  Config config;
  config.blocking = 0;
  check(api_->init_rank(&handle_, ranks, id, rank, &config), "ncclCommInitRankConfig");
}

Connection::~Connection() { abort(); }

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

void Connection::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (handle_) api_->abort(std::exchange(handle_, nullptr));
}

void Connection::check(Status status, const char* call) const {
  if (status != kSuccess && status != kInProgress) fail(status, call);
}

void Connection::fail(Status status, const char* call) const {
  const char* const more = api_->last_error(handle_);
  throw Error(
      status == kRemoteError ? ErrorKind::peer_failed : ErrorKind::system,
      concat(call, ": ", api_->error_string(status), more && *more ? ": " : "", more ? more : ""));
}

}  // namespace ringspan::comm::nccl
