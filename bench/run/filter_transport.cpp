// SPDX-License-Identifier: Apache-2.0
#include "bench/run/filter_transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/forwarding_transport.hpp"

namespace ringspan::bench {
namespace {

using comm::Buffer;
using comm::Recv;
using comm::Request;
using comm::Send;

/// A request that tells the clock how long it was waited for.
class TimedPending final : public Request::Pending {
 public:
  TimedPending(Request request, bool any, comm::Device& device, StepClock& clock)
      : request_(std::move(request)), any_(any), device_(device), clock_(clock) {}

  bool test() override {
    const double start = device_.now();
    const bool done = request_.test();
    if (done) clock_.waited(device_.now() - start);
    return done;
  }

  void wait() override {
    const double start = device_.now();
    request_.wait();
    clock_.waited(device_.now() - start, any_);
  }

 private:
  Request request_;
  const bool any_;  // messages
  comm::Device& device_;
  StepClock& clock_;
};

/// Stands in for the buffers that hops by reference would have brought.
class SpareBuffers {
 public:
  explicit SpareBuffers(comm::Device& device) : device_(device) {}

  /// Points every Recv that needs a buffer of its sender at another one: that of a Send of the same
  /// post, else one given away by an earlier Send, else a new one. Takes all slices over.
  void substitute(std::span<Send> sends, std::span<Recv> recvs) {
    std::vector<Buffer> sent;
    for (Send& send : sends) {
      sent.push_back(std::exchange(send.slice, {}).buffer);
      largest_ = std::max(largest_, sent.back().bytes());
    }
    for (Recv& recv : recvs) {
      const comm::Slice slice = std::exchange(recv.slice, {});
      if (!recv.rebind || slice.buffer || slice.bytes() == 0) continue;
      *recv.rebind = {};
      if (!take(sent, slice.bytes(), *recv.rebind) && !take(spare_, slice.bytes(), *recv.rebind)) {
        *recv.rebind = allocate(std::max(slice.bytes(), largest_));
      }
    }
    // What its sender still holds was lent: keeping it would make reclaim() wait for ever.
    for (Buffer& buffer : sent) {
      if (buffer.sole_owner()) spare_.push_back(std::move(buffer));
    }
  }

 private:
  static bool take(std::vector<Buffer>& from, std::int64_t bytes, Buffer& to) {
    const auto found = std::find_if(from.begin(), from.end(), [bytes](const Buffer& buffer) {
      return buffer.bytes() >= bytes;
    });
    if (found == from.end()) return false;
    to = std::move(*found);
    from.erase(found);
    return true;
  }

  Buffer allocate(std::int64_t bytes) {
    Buffer buffer = device_.allocate(bytes);
    std::memset(buffer.data(), 0, bytes);  // host memory; stale data must at least be finite
    return buffer;
  }

  comm::Device& device_;
  std::int64_t largest_ = 0;  // a schedule may put more into a buffer later than it received in it
  std::vector<Buffer> spare_;
};

class FilterTransport final : public comm::ForwardingTransport {
 public:
  FilterTransport(std::shared_ptr<comm::Transport> inner, const RunMode& mode, StepClock& clock)
      : ForwardingTransport(std::move(inner)), mode_(mode), clock_(clock), spares_(device()) {}

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    const bool any = mode_.messages != Messages::none && !(sends.empty() && recvs.empty());
    const double start = device().now();
    Request request = filtered(operation, sends, recvs);
    clock_.posted(device().now() - start);
    return Request(std::make_unique<TimedPending>(std::move(request), any, device(), clock_));
  }

  std::shared_ptr<comm::Transport> group(std::span<const int> ranks) override {
    return std::make_shared<FilterTransport>(inner().group(ranks), mode_, clock_);
  }

 private:
  Request filtered(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) {
    if (mode_.messages == Messages::full) return inner().post(operation, sends, recvs);
    spares_.substitute(sends, recvs);
    if (mode_.messages == Messages::none) return {};
    for (Recv& recv : recvs) recv.rebind = nullptr;
    return inner().post(operation, sends, recvs);  // their slices are empty now
  }

  const RunMode& mode_;
  StepClock& clock_;
  SpareBuffers spares_;
};

}  // namespace

std::shared_ptr<comm::Transport> make_filter_transport(std::shared_ptr<comm::Transport> inner,
                                                       const RunMode& mode, StepClock& clock) {
  return std::make_shared<FilterTransport>(std::move(inner), mode, clock);
}

}  // namespace ringspan::bench
