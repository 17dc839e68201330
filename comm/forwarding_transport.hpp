// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "comm/transport.hpp"

namespace ringspan::comm {

/// What a caller derives from to observe or filter what passes through a communicator (see
/// Communicator::through): calls go on to `inner`. post() and group() are left to the subclass; the
/// latter says whether groups made from it are treated alike.
class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Device& device() override { return inner_->device(); }
  Traffic traffic() const override { return inner_->traffic(); }
  void reclaim(const Buffer& buffer) override { inner_->reclaim(buffer); }
  void abort(const Error& cause) override { inner_->abort(cause); }

 protected:
  Transport& inner() const { return *inner_; }

 private:
  const std::shared_ptr<Transport> inner_;
};

}  // namespace ringspan::comm
