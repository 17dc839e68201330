// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/transport.hpp"
#include "comm/transports/arguments.hpp"
#include "comm/transports/pending_operation.hpp"
#include "comm/transports/processes/engine.hpp"

namespace ringspan::comm::processes {

/// One rank of one group: checks arguments and turns ranks of the group into ranks of the world;
/// the rank's engine does the rest.
class ProcessTransport final : public Transport {
 public:
  ProcessTransport(std::shared_ptr<Engine> engine, std::shared_ptr<Channel> channel)
      : engine_(std::move(engine)), channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank; }
  int size() const override { return static_cast<int>(channel_->members.size()); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    engine_->require_working();
    require_valid(operation, sends, recvs, size(), false);
    engine_->delay_for_debugging();
    return request(engine_->post(channel_, operation, sends, recvs));
  }

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    engine_->require_working();
    require_valid_group(ranks, rank(), size());
    const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(channel_->members[rank]);
    return std::make_shared<ProcessTransport>(
        engine_, engine_->join(agreed_channel(ranks, own), members, static_cast<int>(own)));
  }

  Device& device() override { return engine_->device(); }
  Traffic traffic() const override { return engine_->traffic(); }
  void reclaim(const Buffer&) override { engine_->require_working(); }  // nothing is ever lent

  void abort(const Error& cause) override {
    Error::Where where = cause.where();
    if (where.peer < 0) where.peer = engine_->rank();
    const Error here(cause.kind(), cause.what(), where);
    engine_->fail({here, here});
  }

 private:
  Request request(std::shared_ptr<Operation> operation) {
    if (operation->done()) return {};
    using Pending = PendingOperation<Engine, Operation>;
    return Request(std::make_unique<Pending>(engine_, std::move(operation)));
  }

  // The largest that a member has not used yet: no two ranks ever see one number twice.
  std::int64_t agreed_channel(std::span<const int> ranks, std::ptrdiff_t own) {
    constexpr std::int64_t kBytes = sizeof(std::int64_t);
    const Buffer numbers = engine_->stage(std::ssize(ranks) * kBytes);
    const std::int64_t mine = engine_->next_channel();
    std::memcpy(numbers.data() + own * kBytes, &mine, kBytes);
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    for (std::ptrdiff_t i = 0; i < std::ssize(ranks); ++i) {
      if (i == own) continue;
      sends.push_back({ranks[i], slice(numbers, own * kBytes, kBytes)});
      recvs.push_back({ranks[i], slice(numbers, i * kBytes, kBytes)});
    }
    request(engine_->post(channel_, "group", sends, recvs, false)).wait();
    std::vector<std::int64_t> all(ranks.size());
    std::memcpy(all.data(), numbers.data(), all.size() * kBytes);
    return *std::max_element(all.begin(), all.end());
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Channel> channel_;
};

}  // namespace ringspan::comm::processes
