// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "comm/transports/arguments.hpp"
#include "comm/transports/pending_operation.hpp"
#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {

/// An operation that, where a graph is captured that it is no part of, is not waited for, and stays
/// as it is.
class StreamRequest final : public Request::Pending {
 public:
  StreamRequest(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(engine), operation_(operation), pending_(std::move(engine), std::move(operation)) {}

  bool test() override {
    engine_->require_not_in_graph(*operation_);
    return pending_.test();
  }
  void wait() override {
    engine_->require_same_graph(*operation_);
    pending_.wait();
  }

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<const Operation> operation_;
  PendingOperation<Engine, Operation> pending_;
};

/// One rank of one group: checks arguments and turns ranks of the group into ranks of the world;
/// the rank's engine does the rest.
class StreamTransport final : public Transport {
 public:
  StreamTransport(std::shared_ptr<Engine> engine, std::shared_ptr<Channel> channel, int rank)
      : engine_(std::move(engine)), channel_(std::move(channel)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(channel_->members.size()); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    engine_->require_working();
    require_valid(operation, sends, recvs, size(), false);
    engine_->require_room(operation, sends, recvs);
    engine_->require_room_in_graph(operation, channel_->posted[rank_], sends, recvs);
    engine_->delay_for_debugging();
    auto posted = engine_->post(channel_, channel_->posted[rank_]++, operation, sends, recvs);
    if (posted->sends.empty() && posted->recvs.empty()) return {};
    return Request(std::make_unique<StreamRequest>(engine_, std::move(posted)));
  }

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    engine_->require_working();
    require_valid_group(ranks, rank_, size());
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(channel_->members[rank]);
    const auto own = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return std::make_shared<StreamTransport>(
        engine_, engine_->hub().join(channel_->id, groups_++, members), static_cast<int>(own));
  }

  Device& device() override { return engine_->device(); }
  Traffic traffic() const override { return engine_->traffic(); }
  void reclaim(const Buffer&) override { engine_->require_working(); }  // nothing is ever lent

  void abort(const Error& cause) override {
    Error::Where where = cause.where();
    if (where.peer < 0) where.peer = engine_->rank();
    engine_->hub().fail(Error(cause.kind(), cause.what(), where));
  }

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Channel> channel_;
  const int rank_;
  std::int64_t groups_ = 0;
};

}  // namespace ringspan::comm::streams
