// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. A send puts a reference to the slice into the receiver's
// mailbox; the receiver copies, or takes the buffer over, when it waits, tests or polls.
#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>

#include "comm/launch.hpp"
#include "comm/transports/arguments.hpp"
#include "comm/transports/pending_operation.hpp"
#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm {
namespace threads {
namespace {

/// One rank of one group: checks arguments and turns ranks of the group into ranks of the world;
/// the rank's engine does the rest.
class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Engine> engine, std::shared_ptr<Channel> channel, int rank)
      : engine_(std::move(engine)), channel_(std::move(channel)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(channel_->members.size()); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    engine_->require_working();
    require_valid(operation, sends, recvs, size(), engine_->hub().world()->lends);
    engine_->delay_for_debugging();
    std::shared_ptr<Operation> posted = take_over(operation, sends, recvs);
    engine_->post(posted);
    if (posted->done()) return {};
    using Pending = PendingOperation<Engine, Operation>;
    return Request(std::make_unique<Pending>(engine_, std::move(posted)));
  }

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    engine_->require_working();
    require_valid_group(ranks, rank_, size());
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(channel_->members[rank]);
    const auto own = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return std::make_shared<ThreadsTransport>(
        engine_, engine_->hub().join(channel_->id, groups_++, members), static_cast<int>(own));
  }

  Device& device() override { return engine_->device(); }
  Traffic traffic() const override { return engine_->traffic(); }

  void reclaim(const Buffer& buffer) override {
    engine_->require_working();
    engine_->wait_for_sole_owner(buffer);
  }

  void abort(const Error& cause) override {
    Error::Where where = cause.where();
    if (where.peer < 0) where.peer = engine_->rank();
    engine_->hub().fail(Error(cause.kind(), cause.what(), where));
  }

 private:
  std::shared_ptr<Operation> take_over(std::string_view name, std::span<Send> sends,
                                       std::span<Recv> recvs) {
    auto operation = std::make_shared<Operation>();
    operation->channel = channel_;
    operation->rank = engine_->rank();
    operation->sequence = channel_->posted[rank_]++;
    operation->name = name;
    operation->sends = std::vector<Outgoing>(sends.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      operation->sends[i].to = channel_->members[sends[i].to];
      operation->sends[i].slice = std::move(sends[i].slice);
    }
    for (Recv& recv : recvs)
      operation->recvs.push_back(
          {channel_->members[recv.from], std::move(recv.slice), recv.rebind});
    operation->unreceived = std::ssize(sends);
    operation->expected = std::ssize(recvs);
    return operation;
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Channel> channel_;
  const int rank_;
  std::int64_t groups_ = 0;
};

std::shared_ptr<Engine> run_rank(const std::shared_ptr<Hub>& hub,
                                 const std::shared_ptr<Channel>& everyone, int rank,
                                 const RankFunction& body) {
  hub->beat(rank);
  auto engine = std::make_shared<Engine>(hub, rank);
  try {
    body(Communicator(std::make_shared<ThreadsTransport>(engine, everyone, rank), hub->world()));
    engine->require_working();
  } catch (...) {
    hub->fail(diagnosis::failure_of_rank(rank, std::current_exception()));
  }
  hub->set_returned(rank);
  // At once: another may never return.
  if (const auto failure = hub->failure().get())
    engine->recorder().dump(hub->options().flight_recorder, failure->thrown);
  return engine;
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  const auto hub = std::make_shared<Hub>(options);
  std::vector<int> members(options.ranks);
  std::iota(members.begin(), members.end(), 0);
  const auto everyone = hub->join(-1, 0, members);

  std::vector<std::shared_ptr<Engine>> engines(options.ranks);
  run_each(*hub, [&](int rank) { engines[rank] = run_rank(hub, everyone, rank, body); });
  const auto error = hub->outcome();
  if (!error) return;
  for (const auto& engine : engines)  // of ranks that had returned before it failed, too
    if (engine) engine->recorder().dump(options.flight_recorder, *error);
  throw *error;
}

}  // namespace
}  // namespace threads

Backend threads_backend() {
  return {"threads", "ranks are threads of this process", "host", [] { return std::string(); },
          threads::launch_ranks};
}

}  // namespace ringspan::comm
