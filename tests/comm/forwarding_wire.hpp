// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::test {

/// A wire like the one it is given, until a subclass says otherwise.
class ForwardingWire : public processes::Wire {
 public:
  explicit ForwardingWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  std::int64_t tags() const override { return wire_->tags(); }
  std::int64_t largest_message() const override { return wire_->largest_message(); }
  bool reaches_gpus() const override { return wire_->reaches_gpus(); }
  std::unique_ptr<processes::Transfer> send(int to, std::int64_t tag,
                                            std::span<const std::byte> bytes) override {
    return wire_->send(to, tag, bytes);
  }
  std::unique_ptr<processes::Transfer> receive(int from, std::int64_t tag,
                                               std::span<std::byte> bytes) override {
    return wire_->receive(from, tag, bytes);
  }
  bool send_notice(int to, std::span<const std::byte> bytes) override {
    return wire_->send_notice(to, bytes);
  }
  std::optional<processes::Notice> receive_notice() override { return wire_->receive_notice(); }
  void progress() override { wire_->progress(); }
  std::string lost(int rank) const override { return wire_->lost(rank); }
  void fail() override { wire_->fail(); }

 private:
  const std::unique_ptr<Wire> wire_;
};

}  // namespace ringspan::comm::test
