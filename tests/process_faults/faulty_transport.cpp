// SPDX-License-Identifier: Apache-2.0
#include "tests/process_faults/faulty_transport.hpp"

#include <utility>

namespace ringspan::comm::test {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Injection> injection)
      : inner_(std::move(inner)), injection_(std::move(injection)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    return std::make_shared<FaultyTransport>(inner_->group(ranks), injection_);
  }
  Device& device() override { return inner_->device(); }
  Traffic traffic() const override { return inner_->traffic(); }
  void reclaim(const Buffer& buffer) override { inner_->reclaim(buffer); }
  void abort(const Error& cause) override { inner_->abort(cause); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    const bool possible = !injection_->wrong_size || !sends.empty();
    if (possible && injection_->posts_before-- == 0) {
      injection_->strike();
      if (injection_->wrong_size) {
        Slice& sent = sends.front().slice;
        sent = whole(device().allocate(sent.bytes() + 1));
      }
    }
    return inner_->post(operation, sends, recvs);
  }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<Injection> injection_;
};

}  // namespace

std::shared_ptr<Transport> make_faulty_transport(std::shared_ptr<Transport> inner,
                                                 std::shared_ptr<Injection> injection) {
  return std::make_shared<FaultyTransport>(std::move(inner), std::move(injection));
}

}  // namespace ringspan::comm::test
