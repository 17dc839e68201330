// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/launch.hpp"

#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/transports/streams/stream_transport.hpp"
#include "comm/transports/threads/hub.hpp"

namespace ringspan::comm::streams {
namespace {

std::shared_ptr<Channel> everyone(diagnosis::Hub& hub) {
  std::vector<int> members(hub.size());
  std::iota(members.begin(), members.end(), 0);
  return hub.join(-1, 0, members);
}

}  // namespace

void require_gpu_each(std::string_view transport, const cuda::Api& cuda, int ranks) {
  const int gpus = cuda::device_count(cuda);
  RINGSPAN_REQUIRE(ranks <= gpus, transport, ": ", ranks,
                   " ranks that are threads need as many GPUs; there are ", gpus);
}

std::shared_ptr<Engine> run_rank(const std::shared_ptr<diagnosis::Hub>& hub, int rank,
                                 const RankFunction& body,
                                 const std::shared_ptr<const cuda::Gpu>& gpu,
                                 const Connect& connect, Watchdog& watchdog) {
  hub->beat(rank);
  std::unique_ptr<Connection> connection;  // others see its end, and are to know why by then
  std::shared_ptr<Engine> engine;
  try {
    gpu->open_pool();
    connection = connect(gpu, rank);
    engine = std::make_shared<Engine>(hub, rank, gpu, std::move(connection));
    watchdog.add(engine);
    const cuda::Current current(*gpu);  // for the body, too
    engine->connect();
    body(Communicator(std::make_shared<StreamTransport>(engine, everyone(*hub), rank),
                      hub->world()));
    engine->finish();
  } catch (...) {
    hub->fail(diagnosis::failure_of_rank(rank, std::current_exception()));
  }
  hub->set_returned(rank);
  if (engine) engine->close();
  const auto failure = hub->failure().get();
  if (engine && failure) engine->recorder().dump(hub->options().flight_recorder, failure->thrown);
  return engine;
}

void launch_threads(const LaunchOptions& options, const RankFunction& body,
                    const std::shared_ptr<const cuda::Api>& cuda, const Connect& connect) {
  const auto hub = std::make_shared<threads::Hub>(options);
  Watchdog watchdog;
  std::vector<std::shared_ptr<const cuda::Gpu>> gpus;
  for (int gpu = 0; gpu < options.ranks; ++gpu)
    gpus.push_back(std::make_shared<cuda::Gpu>(cuda, gpu));
  std::vector<std::shared_ptr<Engine>> engines(options.ranks);
  threads::run_each(*hub, [&](int rank) {
    engines[rank] = run_rank(hub, rank, body, gpus[rank], connect, watchdog);
  });
  const auto error = hub->outcome();
  if (!error) return;
  for (const auto& engine : engines)
    if (engine) engine->recorder().dump(options.flight_recorder, *error);
  throw *error;
}

}  // namespace ringspan::comm::streams
