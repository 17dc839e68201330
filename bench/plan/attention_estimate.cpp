// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/attention_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <optional>
#include <vector>

#include "attention/closed_forms.hpp"
#include "attention/kernels.hpp"
#include "bench/interrupt.hpp"
#include "bench/plan/tensor_share.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/simulation_process.hpp"
#include "bench/training/collective_seconds.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// A point that leaves nothing open, on the share of the cluster that it runs on.
Point point_of(const PlanOptions& options, const comm::Cluster& share, const TrainingConfig& config,
               std::string_view schedule, const std::string& pass) {
  const std::string on_ranks(schedule == "none" ? "ring" : schedule);
  Point point = attention_point(options.model, options.cluster, config, on_ranks, "modelled", pass);
  settle(point, {.names = {}, .numbers = {}, .models = {}, .clusters = {{share.name, share}}});
  return point;
}

using Sent = LeastTraffic::Sent;

Sent most_sent(const Point& point, const std::vector<comm::Place>& places) {
  Sent most;
  for (const attention::Traffic& sent : closed_form(point, {}, comm::World{places})) {
    most.in_node = std::max(most.in_node, static_cast<double>(sent.bytes - sent.inter_node_bytes));
    most.between_nodes = std::max(most.between_nodes, static_cast<double>(sent.inter_node_bytes));
  }
  return most;
}

/// What the all-to-alls of usp send, which are those of Ulysses on every group of theirs.
Sent most_exchanged(Point point, const std::vector<comm::Place>& places) {
  const std::int64_t stride = point.placement == "ring_inner" ? point.ring_degree : 1;
  std::vector<comm::Place> group;
  for (std::int64_t rank = 0; rank < point.ulysses_degree; ++rank) {
    group.push_back(places[static_cast<std::size_t>(rank * stride)]);
  }
  point.schedule = "ulysses";
  point.ranks = point.ulysses_degree;
  point.sequence_length /= point.ring_degree;
  point.ring_degree = 1;
  point.placement.clear();
  point.layout = "contiguous";
  return most_sent(point, group);
}

/// Messages of a ring: so many follow each other, some at the same time.
struct Hops {
  std::int64_t ranks = 1;
  int at_once = 1;
};

/// Over links that no other rank uses. Without hops all goes at once, which no channel limits.
double least_seconds(const comm::Cluster& cluster, const Sent& sent,
                     const std::optional<Hops>& ring) {
  const auto seconds = [&](bool between_nodes, double bytes, double link) {
    if (bytes == 0) return 0.0;
    if (!ring) return bytes / link;
    const comm::GroupExtent group{static_cast<int>(ring->ranks), sent.between_nodes == 0};
    const auto longest = static_cast<std::int64_t>(bytes / static_cast<double>(ring->ranks - 1));
    const auto message = comm::model_message(cluster, group, between_nodes, longest);
    return bytes / std::min(link, ring->at_once * message.most_bytes_per_second);
  };
  return std::max(seconds(false, sent.in_node, cluster.fabric.gpu_bytes_per_second),
                  seconds(true, sent.between_nodes, cluster.network.adapter_bytes_per_second));
}

Sent times(double count, const Sent& sent) {
  return {count * sent.in_node, count * sent.between_nodes};
}

/// Of the kernels beside messages, wherever these go.
double least_slowdown(const comm::Cluster& cluster, const Sent& sent) {
  double least = std::numeric_limits<double>::infinity();
  if (sent.in_node > 0) least = cluster.fabric.messages.kernel_slowdown;
  if (sent.between_nodes > 0) {
    least = std::min(least, cluster.network.messages.kernel_slowdown);
  }
  return std::isinf(least) ? 1 : least;
}

/// Of a kernel that is as fast where no tile meets the mask, which is all that a pass cut into more
/// tiles can gain: with a causal mask, some libraries are slower.
double least_share(const comm::Gpu& gpu, const std::string& pass, std::int64_t head_dim) {
  return std::min(attention::causal_share_of_speed(gpu.kind, pass != "forward", head_dim), 1.0);
}

}  // namespace

double AttentionEstimate::seconds_left() const {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
  return options_.time_limit - taken.count();
}

void AttentionEstimate::require_time() const {
  if (seconds_left() > 0) return;
  throw Error(ErrorKind::aborted,
              concat("the plan took longer than --time-limit ", options_.time_limit, " s"));
}

Measurement AttentionEstimate::simulate(const Point& point, const comm::Cluster& share) const {
  MeasureOptions measure;
  measure.point_timeout = std::max(seconds_left(), 0.0);
  try {
    return simulate_apart(point, measure, share);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::aborted && !interrupted()) require_time();
    throw;
  }
}

/// Of the heads that a rank has after all-to-alls. A longer ring takes no less for its tokens, but
/// for what its whole tiles gain.
double AttentionEstimate::kernel_seconds(const Mix& mix, const std::string& pass,
                                         int longest_ring) {
  const TrainingConfig& config = mix.config;
  TrainingConfig all_heads;
  all_heads.sequence_length = options_.sequence_length;
  all_heads.micro_batch = config.micro_batch;
  all_heads.ring = mix.schedule == "all_gather_kv" ? 1 : std::min(config.ring, longest_ring);
  const std::string_view schedule = all_heads.ring == 1         ? "none"
                                    : mix.schedule == "striped" ? mix.schedule
                                                                : "zigzag";
  const Point point = point_of(options_, options_.cluster, all_heads, schedule, pass);
  auto known = kernels_.find(point);
  if (known == kernels_.end()) {
    const double seconds = simulate(point, options_.cluster).times.compute[0];
    known = kernels_.emplace(point, seconds).first;
  }

  const std::int64_t split = options_.model.heads / config.tensor;
  const std::int64_t heads = (split + config.ulysses - 1) / config.ulysses;
  const bool cut_as_simulated = all_heads.ring == config.ring;
  const double share =
      cut_as_simulated ? 1 : least_share(options_.cluster.gpu, pass, options_.model.head_dim);
  return share * known->second * static_cast<double>(heads * all_heads.ring) /
         static_cast<double>(options_.model.heads * config.ring);
}

const LeastTraffic& AttentionEstimate::traffic(const comm::Cluster& share, const Point& point,
                                               int tensor) {
  const auto [known, fresh] = traffic_.emplace(Key(tensor, point), LeastTraffic{});
  LeastTraffic& traffic = known->second;
  if (!fresh) return traffic;
  const auto places = comm::places(share, static_cast<int>(point.ranks),
                                   static_cast<int>(point.pretended_ranks_per_node));
  const Sent all = most_sent(point, places);
  if (point.ring_degree == 1 || point.schedule == "all_gather_kv") {
    traffic.exchanged = all;
  } else {
    if (point.ulysses_degree > 1) traffic.exchanged = most_exchanged(point, places);
    traffic.travelling = {std::max(all.in_node - traffic.exchanged.in_node, 0.0),
                          std::max(all.between_nodes - traffic.exchanged.between_nodes, 0.0)};
  }
  return traffic;
}

AttentionPass AttentionEstimate::bound(const Mix& mix, const std::string& pass, int longest_ring) {
  require_time();
  TrainingConfig one = mix.config;
  one.micro_batch = 1;
  const int tensor = one.tensor;
  const comm::Cluster share = tensor_share(options_.cluster, tensor);
  const Point point = point_of(options_, share, one, mix.schedule, pass);

  const double kernels = kernel_seconds(mix, pass, longest_ring);
  if (mix.whole_sequences()) return {kernels};

  const LeastTraffic& least = traffic(share, point, tensor);
  const auto batch = static_cast<double>(mix.config.micro_batch);
  const Sent travelling = times(batch, least.travelling);
  const Sent exchanged = times(batch, least.exchanged);
  // Backward, gradients go beside K and V.
  const Hops hops{point.ring_degree, point.has_backward() ? 2 : 1};
  const double ring = least_seconds(share, travelling, hops);
  const double seconds = overlapped_seconds(kernels, ring, least_slowdown(share, travelling)) +
                         least_seconds(share, exchanged, std::nullopt);
  return {seconds, seconds - kernels};
}

AttentionCost AttentionEstimate::at_best(const Mix& mix, int longest_ring) {
  return {bound(mix, "forward", longest_ring), bound(mix, "backward", longest_ring), 0};
}

AttentionCost AttentionEstimate::at_best_in_ring(const Mix& mix) {
  constexpr int kLongest = 16;  // which takes little to simulate; of longer ones a lower bound
  return at_best(mix, kLongest);
}

const AttentionCost& AttentionEstimate::simulated(const Mix& mix) {
  const comm::Cluster share = tensor_share(options_.cluster, mix.config.tensor);
  const auto point = [&](const char* pass) {
    return point_of(options_, share, mix.config, mix.schedule, pass);
  };
  const Point forward = point("forward"), backward = point("backward");
  const Key key(mix.config.tensor, backward);
  if (const auto known = simulated_.find(key); known != simulated_.end()) return known->second;
  auto forth = std::async(std::launch::async, [&] { return simulate(forward, share); });
  const Measurement back = simulate(backward, share);
  const AttentionCost cost{attention_pass(forth.get()), attention_pass(back),
                           attention_workspace(backward, back)};
  return simulated_.emplace(key, cost).first->second;
}

}  // namespace ringspan::bench
