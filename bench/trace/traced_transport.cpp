// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/traced_transport.hpp"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/trace/traced_device.hpp"
#include "comm/forwarding_transport.hpp"

namespace ringspan::bench {
namespace {

using comm::Recv;
using comm::Request;
using comm::Send;
using comm::TraceSpan;

/// What the groups of one rank have in common.
struct Rank {
  Rank(comm::Device& inner, comm::Trace told, int world_rank)
      : trace(std::move(told)), rank(world_rank), device(inner, trace, rank) {}

  const comm::Trace trace;
  const int rank;  // world rank
  TracedDevice device;
};

/// A request that tells when it was waited for, and when its messages were seen to be done.
class TracedPending final : public Request::Pending {
 public:
  TracedPending(std::shared_ptr<Rank> rank, std::string_view operation)
      : rank_(std::move(rank)), operation_(operation), posted_(now()) {}

  void sends(int peer, std::int64_t bytes) { sent_.push_back({peer, bytes}); }
  void posted(Request request) { request_ = std::move(request); }

  bool test() override {
    const bool done = request_.test();
    if (done) tell_messages();
    return done;
  }

  void wait() override {
    const double start = now();
    request_.wait();
    rank_->trace({TraceSpan::Kind::wait, rank_->rank, operation_, start, now()});
    tell_messages();
  }

 private:
  struct Message {
    int peer;  // world rank
    std::int64_t bytes;
  };

  double now() const { return rank_->device.now(); }

  void tell_messages() const {
    for (const auto& [peer, bytes] : sent_) {
      rank_->trace(
          {TraceSpan::Kind::message, rank_->rank, operation_, posted_, now(), peer, bytes});
    }
  }

  const std::shared_ptr<Rank> rank_;
  const std::string operation_;
  const double posted_;
  std::vector<Message> sent_;
  Request request_;
};

class TracedTransport final : public comm::ForwardingTransport {
 public:
  TracedTransport(std::shared_ptr<comm::Transport> inner, std::shared_ptr<Rank> rank,
                  std::vector<int> members)
      : ForwardingTransport(std::move(inner)),
        own_(std::move(rank)),
        members_(std::move(members)) {}

  comm::Device& device() override { return own_->device; }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    if (sends.empty() && recvs.empty()) return inner().post(operation, sends, recvs);
    auto pending = std::make_unique<TracedPending>(own_, operation);
    for (const Send& send : sends) {
      if (send.to != rank()) pending->sends(members_[send.to], send.slice.bytes());
    }
    pending->posted(inner().post(operation, sends, recvs));
    return Request(std::move(pending));
  }

  std::shared_ptr<comm::Transport> group(std::span<const int> ranks) override {
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(members_[rank]);
    return std::make_shared<TracedTransport>(inner().group(ranks), own_, std::move(members));
  }

 private:
  const std::shared_ptr<Rank> own_;
  const std::vector<int> members_;  // world ranks
};

}  // namespace

std::shared_ptr<comm::Transport> make_traced_transport(std::shared_ptr<comm::Transport> inner,
                                                       comm::Trace trace) {
  const auto own = std::make_shared<Rank>(inner->device(), std::move(trace), inner->rank());
  std::vector<int> everybody(inner->size());
  std::iota(everybody.begin(), everybody.end(), 0);
  return std::make_shared<TracedTransport>(std::move(inner), own, std::move(everybody));
}

}  // namespace ringspan::bench
