// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/record.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/run/measure.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/simulate.hpp"
#include "bench/run/watchdog.hpp"
#include "bench/trace/clock_offset.hpp"
#include "bench/trace/gather.hpp"
#include "bench/trace/traced_transport.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

using Json = nlohmann::json;
using comm::TraceSpan;

/// What one rank does from the moment it begins the pass.
struct RankTimeline {
  void add(const TraceSpan& span) {
    spans.push_back({span.kind, span.rank, std::string(span.name), span.start, span.end, span.peer,
                     span.bytes});
  }

  std::vector<Span> spans;
  double started = 0, ended = 0;
};

/// As JSON, with times of rank 0.
std::string text(const RankTimeline& rank, double offset) {
  Json spans = Json::array();
  for (const Span& span : rank.spans) {
    spans.push_back({static_cast<int>(span.kind), span.rank, span.name, span.start + offset,
                     span.end + offset, span.peer, span.bytes});
  }
  return Json{{"spans", spans}, {"started", rank.started + offset}, {"ended", rank.ended + offset}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankTimeline rank_timeline(const std::string& text) {
  const Json json = Json::parse(text);
  RankTimeline rank{{}, json.at("started"), json.at("ended")};
  for (const Json& span : json.at("spans")) {
    rank.spans.push_back({static_cast<TraceSpan::Kind>(span[0].get<int>()), span[1], span[2],
                          span[3], span[4], span[5], span[6]});
  }
  return rank;
}

Timeline timeline(std::vector<comm::Place> places, std::vector<RankTimeline> ranks) {
  Timeline result{std::move(places), {}, 0};
  double origin = ranks.front().started;
  for (const RankTimeline& rank : ranks) {
    origin = std::min(origin, rank.started);
    for (const Span& span : rank.spans) origin = std::min(origin, span.start);
  }
  for (RankTimeline& rank : ranks) {
    result.seconds = std::max(result.seconds, rank.ended - origin);
    for (Span& span : rank.spans) {
      span.start -= origin;
      span.end -= origin;
      result.spans.push_back(std::move(span));
    }
  }
  return result;
}

void run_pass(RankRun& run, int warmup, RankTimeline& own) {
  for (int i = 0; i < warmup; ++i) run.run(kOverlapped);
  // Not by time: what a GPU tells is not to the microsecond that of the host.
  const double seconds = run.run(kOverlapped, [&own] { own.spans.clear(); });
  own.started = run.started();
  own.ended = own.started + seconds;
}

/// One rank of a real point. Where GPUs tell `own` themselves, what the host does says nothing.
void run_rank(const comm::Communicator& world, const Point& point, const MeasureOptions& options,
              bool told, RankTimeline& own) {
  if (told) {
    RankRun run(world, point, options);
    return run_pass(run, options.warmup, own);
  }
  const auto add = [&own](const TraceSpan& span) { own.add(span); };
  RankRun run(world.through(make_traced_transport(world.transport(), add)), point, options,
              [&](std::string_view kernel, double start, double end) {
                own.add({TraceSpan::Kind::kernel, world.rank(), kernel, start, end});
              });
  run_pass(run, options.warmup, own);
}

}  // namespace

Timeline record(const Point& point, const MeasureOptions& options) {
  problem(point, options);  // refuses an illegal one before any rank starts
  const bool processes = comm::ranks_are_processes(comm::backend(point.transport));
  Timeline result;
  KnownCosts known;
  std::vector<RankTimeline> own(static_cast<std::size_t>(point.ranks));  // of this process
  const bool told = comm::backend(point.transport).world == "gpu";
  comm::LaunchOptions launch = launch_options(point, options);
  if (told) launch.trace = [&](const TraceSpan& span) { own[span.rank].add(span); };
  comm::launch(point.transport, launch, [&](const comm::Communicator& all) {
    const auto costs = exchange_costs(point, all, known);
    const comm::Communicator world = costs ? all.knowing(costs->own) : all;
    std::unique_ptr<Watchdog> watchdog;  // one in a process
    if (world.rank() == 0 || processes) {
      watchdog = std::make_unique<Watchdog>(world, options.point_timeout);
    }
    RankTimeline& mine = own[world.rank()];
    run_rank(world, point, options, told, mine);
    const double offset = processes ? clock_offset(world) : 0;
    std::vector<RankTimeline> ranks;
    for (const std::string& rank : gather(world, text(mine, offset))) {
      ranks.push_back(rank_timeline(rank));
    }
    if (world.rank() == 0) result = timeline(world.world().places, std::move(ranks));
  });
  return result;
}

Timeline record_simulated(const Point& point, const MeasureOptions& options,
                          const comm::Cluster& cluster) {
  problem(point, options);
  comm::LaunchOptions launch = simulated_launch(point, options, cluster);
  std::vector<RankTimeline> ranks(static_cast<std::size_t>(point.ranks));
  std::vector<comm::Place> places;
  launch.trace = [&](const TraceSpan& span) { ranks[span.rank].add(span); };
  comm::launch(point.transport, launch, [&](const comm::Communicator& world) {
    std::optional<Watchdog> watchdog;
    if (world.rank() == 0) watchdog.emplace(world, options.point_timeout);
    RankRun run(world, point, options);
    run_pass(run, 0, ranks[world.rank()]);
    if (world.rank() == 0) places = world.world().places;
  });
  return timeline(std::move(places), std::move(ranks));
}

}  // namespace ringspan::bench
