// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/first_failure.hpp"

#include <new>

namespace ringspan::comm::diagnosis {
namespace {

Failure told_to_peers(int rank, ErrorKind kind, const std::string& what, Error::Where where) {
  if (where.rank < 0) where.rank = rank;
  if (where.peer < 0) where.peer = rank;
  return {Error(ErrorKind::peer_failed, concat("rank ", rank, " failed: ", what), {rank, rank}),
          Error(kind, what, where)};
}

}  // namespace

Failure failure_of_rank(int rank, const std::exception_ptr& thrown) {
  const std::string foreign = concat("rank ", rank, ": ");
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return told_to_peers(rank, error.kind(), error.what(), error.where());
  } catch (const std::bad_alloc&) {  // whose what() is the name of a type
    return told_to_peers(rank, ErrorKind::system, foreign + "out of memory", {});
  } catch (const std::exception& error) {
    return told_to_peers(rank, ErrorKind::peer_failed, foreign + error.what(), {});
  } catch (...) {
    return told_to_peers(rank, ErrorKind::peer_failed, foreign + "unknown exception", {});
  }
}

bool FirstFailure::set(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = failure;
  failed_ = true;
  return true;
}

std::optional<Failure> FirstFailure::get() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// A new Error each time: one exception object is not for several threads.
void FirstFailure::rethrow(int rank) const {
  if (!failed_.load()) return;
  const std::lock_guard lock(mutex_);
  const Error& cause = failure_->cause;
  Error::Where where = cause.where();
  where.rank = rank;
  throw Error(cause.kind(), cause.what(), where);
}

}  // namespace ringspan::comm::diagnosis
