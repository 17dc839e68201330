// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, each with a GPU of its own. A batch is one group of NCCL's sends
// and receives on the rank's transfer stream. Ranks post in one order across all their groups, so
// one communicator serves them all, and a group costs nothing.
#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "comm/launch.hpp"
#include "comm/transports/arguments.hpp"
#include "comm/transports/nccl/engine.hpp"
#include "comm/transports/nccl/watchdog.hpp"
#include "comm/transports/pending_operation.hpp"

namespace ringspan::comm {
namespace nccl {
namespace {

using threads::Hub;

/// One rank of one group: checks arguments and turns ranks of the group into ranks of the world;
/// the rank's engine does the rest.
class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<Engine> engine, std::shared_ptr<Channel> channel, int rank)
      : engine_(std::move(engine)), channel_(std::move(channel)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(channel_->members.size()); }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    engine_->require_working();
    require_valid(operation, sends, recvs, size(), false);
    engine_->delay_for_debugging();
    auto posted = engine_->post(channel_, channel_->posted[rank_]++, operation, sends, recvs);
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
    return std::make_shared<NcclTransport>(
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

/// What the ranks of a launch share.
struct Shared {
  std::shared_ptr<const cuda::Api> cuda;
  std::shared_ptr<const Api> nccl;
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Pairs> pairs;
  std::shared_ptr<Channel> everyone;
  UniqueId id;
  Watchdog watchdog;
};

std::shared_ptr<Engine> make_engine(Shared& shared, int rank) {
  const auto gpu = std::make_shared<cuda::Gpu>(shared.cuda, rank);
  gpu->open_pool();
  return std::make_shared<Engine>(
      shared.hub, shared.pairs, rank, gpu,
      std::make_unique<Connection>(shared.nccl, gpu, shared.id, shared.hub->size(), rank));
}

void run_rank(Shared& shared, int rank, const RankFunction& body) {
  Hub& hub = *shared.hub;
  hub.beat(rank);
  std::shared_ptr<Engine> engine;
  try {
    engine = make_engine(shared, rank);
    const cuda::Current current(engine->gpu());  // for the body, too
    shared.watchdog.add(engine);
    engine->connect();
    body(Communicator(std::make_shared<NcclTransport>(engine, shared.everyone, rank), hub.world()));
    engine->finish();
  } catch (...) {
    hub.fail(diagnosis::failure_of_rank(rank, std::current_exception()));
  }
  hub.set_returned(rank);
  if (engine) engine->close();
  const auto failure = hub.failure().get();
  const std::string& folder = hub.options().flight_recorder;
  if (engine && failure && !folder.empty()) engine->recorder().dump(folder, failure->thrown);
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "nccl: hops by reference need one memory; between GPUs, copy");
  Shared shared;
  shared.cuda = cuda::load_cuda();
  shared.nccl = load_nccl();
  RINGSPAN_REQUIRE(options.ranks <= cuda::device_count(*shared.cuda), "nccl: ", options.ranks,
                   " ranks need as many GPUs; there are ", cuda::device_count(*shared.cuda));
  shared.hub = std::make_shared<Hub>(options);
  shared.pairs = std::make_shared<Pairs>(options.debug.ledger);
  std::vector<int> members(options.ranks);
  std::iota(members.begin(), members.end(), 0);
  shared.everyone = shared.hub->join(-1, 0, members);
  if (shared.nccl->get_unique_id(&shared.id) != kSuccess)
    throw Error(ErrorKind::system, "nccl: ncclGetUniqueId has failed");

  threads::run_each(*shared.hub, [&](int rank) { run_rank(shared, rank, body); });
  shared.hub->finish();
}

std::string unavailable() {
  try {
    cuda::load_cuda();
    load_nccl();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string found() {
  const auto cuda = cuda::load_cuda();
  return concat("NCCL ", version_text(*load_nccl()), "; ", cuda::device_count(*cuda),
                " GPUs, the first ", cuda::device_name(*cuda, 0));
}

}  // namespace
}  // namespace nccl

Backend nccl_backend() {
  return {"nccl",
          "ranks are threads of this process, each with a GPU, over NCCL",
          "gpu",
          nccl::unavailable,
          nccl::launch_ranks,
          nullptr,
          nccl::found};
}

}  // namespace ringspan::comm
