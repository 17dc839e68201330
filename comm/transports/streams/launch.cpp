// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/launch.hpp"

#include <exception>
#include <numeric>
#include <vector>

#include "comm/transports/streams/stream_transport.hpp"
#include "comm/transports/streams/watchdog.hpp"

namespace ringspan::comm::streams {
namespace {

using threads::Hub;

/// What the ranks of a launch share.
struct Shared {
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Channel> everyone;
  Watchdog watchdog;
};

std::shared_ptr<Engine> make_engine(const Shared& shared, int rank,
                                    const std::shared_ptr<const cuda::Api>& cuda,
                                    const Connect& connect) {
  const auto gpu = std::make_shared<cuda::Gpu>(cuda, rank % cuda::device_count(*cuda));
  gpu->open_pool();
  return std::make_shared<Engine>(shared.hub, rank, gpu, connect(*shared.hub, gpu, rank));
}

void run_rank(Shared& shared, int rank, const RankFunction& body,
              const std::function<std::shared_ptr<Engine>()>& make) {
  Hub& hub = *shared.hub;
  hub.beat(rank);
  std::shared_ptr<Engine> engine;
  try {
    engine = make();
    const cuda::Current current(engine->gpu());  // for the body, too
    shared.watchdog.add(engine);
    engine->connect();
    body(Communicator(std::make_shared<StreamTransport>(engine, shared.everyone, rank),
                      hub.world()));
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

}  // namespace

void launch_threads(const LaunchOptions& options, const RankFunction& body,
                    const std::shared_ptr<const cuda::Api>& cuda, const Connect& connect) {
  Shared shared;
  shared.hub = std::make_shared<Hub>(options);
  std::vector<int> members(options.ranks);
  std::iota(members.begin(), members.end(), 0);
  shared.everyone = shared.hub->join(-1, 0, members);
  threads::run_each(*shared.hub, [&](int rank) {
    run_rank(shared, rank, body, [&] { return make_engine(shared, rank, cuda, connect); });
  });
  shared.hub->finish();
}

}  // namespace ringspan::comm::streams
