// SPDX-License-Identifier: Apache-2.0
// Messages are MPI_Isend and MPI_Irecv of bytes, their tags behind those of earlier launches. MPI
// moves what is in flight whenever any request is tested; the standing receive for notices always
// can be.
#include "comm/transports/mpi/mpi_wire.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/processes/agreement.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace ringspan::comm::mpi {
namespace {

using processes::Notice;
using processes::Transfer;
using processes::Wire;

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(int rank, int peer, std::int64_t capacity)
      : rank_(rank), peer_(peer), capacity_(capacity) {}
  ~MpiTransfer() override {
    if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
  }

  MPI_Request* request() { return &request_; }

  bool done() override {
    if (request_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&request_, &done, &status);
    const bool truncated = is_truncation(code);
    if (!truncated) check_message(code, rank_, peer_);
    if ((done || truncated) && capacity_ >= 0) {
      int bytes = 0;  // Open MPI tells how long a truncated message was, MPICH does not
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      received_ = truncated ? std::max<std::int64_t>(bytes, capacity_ + 1) : bytes;
    }
    if (truncated) request_ = MPI_REQUEST_NULL;
    return done || truncated;
  }

  std::int64_t received() const override { return received_; }

  // MPI takes back no send, and no receive that has been matched.
  bool cancel() override {
    if (request_ == MPI_REQUEST_NULL) return true;
    return capacity_ >= 0 ? withdrawn(request_) : ended(request_);
  }

 private:
  static bool is_truncation(int code) {
    int kind = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
    return kind == MPI_ERR_TRUNCATE;
  }

  const int rank_, peer_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  const std::int64_t capacity_;  // of a receive; -1: a send
  std::int64_t received_ = 0;
};

class MpiWire final : public Wire {
 public:
  /// `first_tag` is that of notices; those of messages follow, to below `tags`.
  MpiWire(Session& session, std::int64_t first_tag, std::int64_t tags)
      : session_(session),
        first_tag_(first_tag),
        tags_(tags - first_tag - 1),
        incoming_(std::make_unique<Bytes>()),
        outgoing_(session.size()) {
    session_.use_tag(first_tag);
    receive_next_notice();
  }

  ~MpiWire() override {
    if (!withdrawn(incoming_request_)) static_cast<void>(incoming_.release());  // MPI may write it
    for (Outgoing& notice : outgoing_) {
      if (ended(notice.request)) continue;
      MPI_Request_free(&notice.request);
      static_cast<void>(new auto(std::move(notice.bytes)));  // MPI may still read it
    }
  }

  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }
  bool reaches_gpus() const override {
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() != 0;
#else
    return false;  // there is no way to ask
#endif
  }
  std::int64_t tags() const override { return tags_; }

  std::unique_ptr<Transfer> send(int to, std::int64_t tag,
                                 std::span<const std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(rank(), to, -1);
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, use(tag),
                    session_.comm(), transfer->request()),
          "MPI_Isend");
    return transfer;
  }

  std::unique_ptr<Transfer> receive(int from, std::int64_t tag,
                                    std::span<std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(rank(), from, std::ssize(bytes));
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, use(tag),
                    session_.comm(), transfer->request()),
          "MPI_Irecv");
    return transfer;
  }

  bool send_notice(int to, std::span<const std::byte> bytes) override {
    Outgoing& notice = outgoing_[to];
    if (!ended(notice.request)) return false;
    notice.bytes.assign(bytes.begin(), bytes.end());
    check(MPI_Isend(notice.bytes.data(), static_cast<int>(notice.bytes.size()), MPI_BYTE, to,
                    static_cast<int>(first_tag_), session_.comm(), &notice.request),
          "MPI_Isend");
    return true;
  }

  std::optional<Notice> receive_notice() override {
    if (notices_.empty()) return {};
    Notice notice = std::move(notices_.front());
    notices_.pop_front();
    return notice;
  }

  void progress() override {
    for (;;) {
      int done = 0, bytes = 0;
      MPI_Status status;
      check(MPI_Test(&incoming_request_, &done, &status), "MPI_Test");
      if (!done) return;
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      notices_.push_back({status.MPI_SOURCE, {incoming_->begin(), incoming_->begin() + bytes}});
      receive_next_notice();
    }
  }

  std::string lost(int) const override { return {}; }  // MPI ends the job instead

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  int use(std::int64_t tag) {
    session_.use_tag(first_tag_ + 1 + tag);
    return static_cast<int>(first_tag_ + 1 + tag);
  }

  void receive_next_notice() {
    check(
        MPI_Irecv(incoming_->data(), static_cast<int>(incoming_->size()), MPI_BYTE, MPI_ANY_SOURCE,
                  static_cast<int>(first_tag_), session_.comm(), &incoming_request_),
        "MPI_Irecv");
  }

  Session& session_;
  const std::int64_t first_tag_, tags_;
  using Bytes = std::array<std::byte, kLargestNotice>;
  std::unique_ptr<Bytes> incoming_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::deque<Notice> notices_;
  std::vector<Outgoing> outgoing_;  // [process]
};

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(Session& session, std::int64_t tags, const Bootstrap& bootstrap,
                                    double deadline) {
  const auto used = processes::all_gather(bootstrap, session.first_unused_tag(), deadline);
  const std::int64_t first = *std::max_element(used.begin(), used.end());
  if (first + 1 >= tags)
    throw Error(ErrorKind::not_available, concat("mpi: this process's launches have used up the ",
                                                 tags, " tags of MPI; start a new process"));
  return std::make_unique<MpiWire>(session, first, tags);
}

}  // namespace ringspan::comm::mpi
