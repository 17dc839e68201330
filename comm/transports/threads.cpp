// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. A send puts a reference to the slice into the receiver's
// mailbox; the receiver copies, or takes the buffer over, when it waits, tests or polls.
#include <algorithm>
#include <exception>
#include <iterator>
#include <latch>
#include <numeric>
#include <set>
#include <thread>

#include "comm/launch.hpp"
#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm {
namespace threads {
namespace {

/// The caller's hold on an operation; letting go of it before it is done abandons it.
class PendingOperation final : public Request::Pending {
 public:
  PendingOperation(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(std::move(engine)),
        operation_(std::move(operation)),
        exceptions_(std::uncaught_exceptions()) {}

  ~PendingOperation() override {
    engine_->abandon(*operation_, std::uncaught_exceptions() > exceptions_);
  }

  bool test() override {
    return abandon_on_failure([this] { return engine_->test(*operation_, patience_); });
  }

  void wait() override {
    abandon_on_failure([this] { engine_->wait(*operation_); });
  }

 private:
  // The caller may free or overwrite what it sent as soon as it sees the failure.
  template <typename Call>
  auto abandon_on_failure(Call call) -> decltype(call()) {
    try {
      return call();
    } catch (...) {
      engine_->abandon(*operation_, true);
      throw;
    }
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Operation> operation_;
  Patience patience_;
  const int exceptions_;
};

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
    for (const Send& send : sends) require_valid(operation, send);
    for (const Recv& recv : recvs) require_valid(operation, recv);
    engine_->delay_for_debugging();
    std::shared_ptr<Operation> posted = take_over(operation, sends, recvs);
    engine_->post(posted);
    if (posted->done()) return {};
    return Request(std::make_unique<PendingOperation>(engine_, std::move(posted)));
  }

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    engine_->require_working();
    const std::set<int> distinct(ranks.begin(), ranks.end());
    RINGSPAN_REQUIRE(distinct.size() == ranks.size(), "group: a rank appears twice");
    RINGSPAN_REQUIRE(distinct.count(rank_) == 1, "group: the calling rank ", rank_,
                     " must be one of its ranks");
    std::vector<int> members;
    for (const int rank : ranks) {
      require_peer("group", rank);
      members.push_back(channel_->members[rank]);
    }
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
  void require_peer(std::string_view operation, int peer) const {
    RINGSPAN_REQUIRE(peer >= 0 && peer < size(), operation, ": rank ", peer,
                     " is not one of the group's 0 to ", size() - 1);
  }

  void require_valid(std::string_view operation, const Send& send) const {
    require_peer(operation, send.to);
    require_inside(send.slice);
  }

  void require_valid(std::string_view operation, const Recv& recv) const {
    require_peer(operation, recv.from);
    const bool may_be_empty = recv.rebind && engine_->hub().world()->lends;
    if (recv.slice.buffer || !may_be_empty) require_inside(recv.slice);
  }

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

// Peers are told that this rank failed; launch() throws what the rank threw.
void fail_thrown(Hub& hub, int rank, ErrorKind kind, const std::string& what, Error::Where where) {
  const Error cause(ErrorKind::peer_failed, concat("rank ", rank, " failed: ", what), {rank, rank});
  if (where.rank < 0) where.rank = rank;
  if (where.peer < 0) where.peer = rank;
  hub.fail(cause, Error(kind, what, where));
}

void run_rank(const std::shared_ptr<Hub>& hub, const std::shared_ptr<Channel>& everyone, int rank,
              const RankFunction& body) {
  const std::string foreign = concat("rank ", rank, ": ");
  hub->beat(rank);
  try {
    auto engine = std::make_shared<Engine>(hub, rank);
    body(Communicator(std::make_shared<ThreadsTransport>(engine, everyone, rank), hub->world()));
    engine->require_working();
  } catch (const Error& error) {
    fail_thrown(*hub, rank, error.kind(), error.what(), error.where());
  } catch (const std::exception& error) {
    fail_thrown(*hub, rank, ErrorKind::peer_failed, foreign + error.what(), {});
  } catch (...) {
    fail_thrown(*hub, rank, ErrorKind::peer_failed, foreign + "unknown exception", {});
  }
  hub->set_returned(rank);
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  const auto hub = std::make_shared<Hub>(options);
  std::vector<int> members(options.ranks);
  std::iota(members.begin(), members.end(), 0);
  const auto everyone = hub->join(-1, 0, members);

  std::vector<std::thread> threads;
  threads.reserve(members.size());
  std::latch started(options.ranks);  // a thread yet to start must not look like a silent rank
  try {
    for (const int rank : members) {
      threads.emplace_back([&, rank] {
        started.arrive_and_wait();
        run_rank(hub, everyone, rank, body);
      });
    }
  } catch (const std::exception& error) {
    hub->fail(Error(ErrorKind::system, concat("launch: thread ", threads.size(), " of ",
                                              options.ranks, " does not start: ", error.what())));
    started.count_down(options.ranks - std::ssize(threads));
  }
  for (std::thread& thread : threads) thread.join();
  hub->finish();
}

}  // namespace
}  // namespace threads

Backend threads_backend() {
  return {"threads", "ranks are threads of this process", "host", [] { return std::string(); },
          threads::launch_ranks};
}

}  // namespace ringspan::comm
