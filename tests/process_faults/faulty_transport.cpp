// SPDX-License-Identifier: Apache-2.0
#include "tests/process_faults/faulty_transport.hpp"

#include <utility>

#include "comm/forwarding_transport.hpp"

namespace ringspan::comm::test {
namespace {

class FaultyTransport final : public ForwardingTransport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Injection> injection)
      : ForwardingTransport(std::move(inner)), injection_(std::move(injection)) {}

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    return std::make_shared<FaultyTransport>(inner().group(ranks), injection_);
  }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    const bool possible = !injection_->wrong_size || !sends.empty();
    if (possible && injection_->posts_before-- == 0) {
      injection_->strike();
      if (injection_->wrong_size) {
        Slice& sent = sends.front().slice;
        sent = whole(device().allocate(sent.bytes() + 1));
      }
    }
    return inner().post(operation, sends, recvs);
  }

 private:
  const std::shared_ptr<Injection> injection_;
};

}  // namespace

std::shared_ptr<Transport> make_faulty_transport(std::shared_ptr<Transport> inner,
                                                 std::shared_ptr<Injection> injection) {
  return std::make_shared<FaultyTransport>(std::move(inner), std::move(injection));
}

}  // namespace ringspan::comm::test
