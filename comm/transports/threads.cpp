// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. A send puts a reference to the slice into the receiver's
// mailbox; the receiver copies, or takes the buffer over, when it waits, tests or polls.
#include <exception>
#include <system_error>
#include <thread>

#include "comm/launch.hpp"
#include "comm/transports/threads/engine.hpp"

namespace ringspan::comm {
namespace threads {
namespace {

class PendingBatch final : public Request::Pending {
 public:
  PendingBatch(std::shared_ptr<Engine> engine, std::shared_ptr<Batch> batch)
      : engine_(std::move(engine)), batch_(std::move(batch)) {}

  ~PendingBatch() override { engine_->abandon(*batch_, std::uncaught_exceptions() > exceptions_); }

  bool test() override {
    try {
      return engine_->test(*batch_, patience_);
    } catch (...) {
      engine_->abandon(*batch_, true);
      throw;
    }
  }

  void wait() override {
    try {
      engine_->wait(*batch_);
    } catch (...) {
      engine_->abandon(*batch_, true);
      throw;
    }
  }

 private:
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Batch> batch_;
  Patience patience_;
  const int exceptions_ = std::uncaught_exceptions();
};

class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Engine> engine, std::shared_ptr<Channel> channel, int rank)
      : engine_(std::move(engine)), channel_(std::move(channel)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(channel_->members.size()); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    engine_->throw_if_failed();
    for (const Send& send : sends) require_valid(operation, send);
    for (const Recv& recv : recvs) require_valid(operation, recv);
    engine_->sleep_at_random();
    auto batch = make_batch(operation, sends, recvs);
    engine_->post(batch);
    if (batch->done()) return {};
    return Request(std::make_unique<PendingBatch>(engine_, std::move(batch)));
  }

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    engine_->throw_if_failed();
    std::vector<int> members;
    int own = -1;
    for (const int rank : ranks) {
      RINGSPAN_REQUIRE(rank >= 0 && rank < size(), "group: rank ", rank,
                       " is not one of the parent's 0 to ", size() - 1);
      for (const int other : members)
        RINGSPAN_REQUIRE(other != channel_->members[rank], "group: rank ", rank, " appears twice");
      if (rank == rank_) own = static_cast<int>(members.size());
      members.push_back(channel_->members[rank]);
    }
    RINGSPAN_REQUIRE(own >= 0, "group: the calling rank ", rank_, " must be one of its ranks");
    auto channel = engine_->hub().join(channel_->id, groups_++, members);
    return std::make_shared<ThreadsTransport>(engine_, std::move(channel), own);
  }

  Device& device() override { return engine_->device(); }
  Traffic traffic() const override { return engine_->traffic(); }

  void reclaim(const Buffer& buffer) override {
    engine_->throw_if_failed();
    engine_->wait_sole_owner(buffer);
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
    if (recv.rebind && engine_->hub().world()->lends && !recv.slice.buffer) return;
    require_inside(recv.slice);
  }

  std::shared_ptr<Batch> make_batch(std::string_view operation, std::span<Send> sends,
                                    std::span<Recv> recvs) {
    auto batch = std::make_shared<Batch>();
    batch->channel = channel_;
    batch->rank = engine_->rank();
    batch->sequence = channel_->posted[rank_]++;
    batch->operation = operation;
    batch->sends = std::vector<Outgoing>(sends.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      batch->sends[i].to = channel_->members[sends[i].to];
      batch->sends[i].slice = std::move(sends[i].slice);
    }
    for (Recv& recv : recvs)
      batch->recvs.push_back({channel_->members[recv.from], std::move(recv)});
    batch->unreceived = static_cast<std::int64_t>(sends.size());
    batch->expected = static_cast<std::int64_t>(recvs.size());
    return batch;
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Channel> channel_;
  const int rank_;
  std::int64_t groups_ = 0;
};

// What its peers are told is not what launch() throws: that is the rank's own exception.
void fail_thrown(Hub& hub, int rank, ErrorKind kind, const std::string& what, Error::Where where) {
  const std::string message = concat("rank ", rank, " failed: ", what);
  const bool foreign = kind == ErrorKind::peer_failed;
  if (where.rank < 0) where.rank = rank;
  hub.fail(Error(ErrorKind::peer_failed, message, {rank, rank}),
           Error(kind, foreign ? message : what, where));
}

void run_rank(const std::shared_ptr<Hub>& hub, const std::shared_ptr<Channel>& channel, int rank,
              const RankFunction& body) {
  try {
    auto engine = std::make_shared<Engine>(hub, rank);
    body(Communicator(std::make_shared<ThreadsTransport>(engine, channel, rank), hub->world()));
    engine->throw_if_failed();
  } catch (const Error& error) {
    fail_thrown(*hub, rank, error.kind(), error.what(), error.where());
  } catch (const std::exception& error) {
    fail_thrown(*hub, rank, ErrorKind::peer_failed, error.what(), {});
  } catch (...) {
    fail_thrown(*hub, rank, ErrorKind::peer_failed, "unknown exception", {});
  }
  hub->set_returned(rank);
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  const auto hub = std::make_shared<Hub>(options);
  std::vector<int> everyone;
  for (int rank = 0; rank < options.ranks; ++rank) everyone.push_back(rank);
  const auto channel = hub->join(-1, 0, everyone);

  std::vector<std::thread> ranks;
  try {
    for (const int rank : everyone)
      ranks.emplace_back([&, rank] { run_rank(hub, channel, rank, body); });
  } catch (const std::system_error& error) {
    hub->fail(Error(ErrorKind::system, concat("cannot start thread ", ranks.size(), " of ",
                                              options.ranks, ": ", error.what())));
  }
  for (std::thread& rank : ranks) rank.join();
  hub->finish();
}

}  // namespace
}  // namespace threads

Backend threads_backend() {
  return {"threads", "ranks are threads of this process", "host", [] { return std::string(); },
          threads::launch_ranks};
}

}  // namespace ringspan::comm
