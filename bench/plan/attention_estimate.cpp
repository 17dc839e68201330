// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/attention_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/closed_forms.hpp"
#include "bench/plan/tensor_share.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/simulation_process.hpp"
#include "bench/training/collective_seconds.hpp"

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

/// The most that any rank sends.
struct Sent {
  double in_node = 0, between_nodes = 0;
};

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

/// `hops`: messages that follow each other; 0: all at once, which no channel limits.
double least_seconds(const comm::Cluster& cluster, const Point& point, const Sent& sent,
                     std::int64_t hops) {
  const auto seconds = [&](bool between_nodes, double bytes, double link) {
    if (bytes == 0) return 0.0;
    if (hops == 0) return bytes / link;
    const auto message = comm::model_message(
        cluster, {static_cast<int>(point.ring_degree), point.ring_degree <= cluster.gpus_per_node},
        between_nodes, static_cast<std::int64_t>(bytes / static_cast<double>(hops)));
    return bytes / std::min(link, message.most_bytes_per_second);
  };
  return std::max(seconds(false, sent.in_node, cluster.fabric.gpu_bytes_per_second),
                  seconds(true, sent.between_nodes, cluster.network.adapter_bytes_per_second));
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

}  // namespace

double AttentionEstimate::seconds_on_one_rank(const std::string& pass) {
  const auto [seconds, fresh] = on_one_rank_.emplace(pass, 0);
  if (fresh) {
    TrainingConfig config;
    config.sequence_length = options_.sequence_length;
    const Point point = point_of(options_, options_.cluster, config, "none", pass);
    seconds->second = attention_pass(simulate_apart(point, {}, options_.cluster)).seconds;
  }
  return seconds->second;
}

AttentionPass AttentionEstimate::bound_of_one_sequence(const Mix& mix, const std::string& pass) {
  const comm::Cluster share = tensor_share(options_.cluster, mix.config.tensor);
  const Point point = point_of(options_, share, mix.config, mix.schedule, pass);
  const auto [known, fresh] = bounds_.emplace(Key(mix.config.tensor, point), AttentionPass{});
  if (!fresh) return known->second;

  const std::int64_t heads = (point.heads + point.ulysses_degree - 1) / point.ulysses_degree;
  const double kernels = seconds_on_one_rank(pass) * static_cast<double>(heads) /
                         static_cast<double>(options_.model.heads * point.ring_degree);
  AttentionPass& best = known->second;
  best.seconds = kernels;
  if (mix.whole_sequences()) return best;

  const auto places = comm::places(share, static_cast<int>(point.ranks),
                                   static_cast<int>(point.pretended_ranks_per_node));
  Sent travelling = most_sent(point, places), exchanged;
  if (mix.schedule == "ulysses" || mix.schedule == "all_gather_kv") {
    std::swap(travelling, exchanged);
  } else if (mix.schedule == "usp") {
    exchanged = most_exchanged(point, places);
    travelling.in_node = std::max(travelling.in_node - exchanged.in_node, 0.0);
    travelling.between_nodes = std::max(travelling.between_nodes - exchanged.between_nodes, 0.0);
  }
  const double ring = least_seconds(share, point, travelling, point.ring_degree - 1);
  best.seconds = overlapped_seconds(kernels, ring, least_slowdown(share, travelling)) +
                 least_seconds(share, point, exchanged, 0);
  best.exposed_seconds = best.seconds - kernels;
  return best;
}

AttentionPass AttentionEstimate::bound(const Mix& mix, const std::string& pass) {
  Mix one = mix;
  one.config.micro_batch = 1;
  AttentionPass best = bound_of_one_sequence(one, pass);
  best.seconds *= static_cast<double>(mix.config.micro_batch);
  best.exposed_seconds *= static_cast<double>(mix.config.micro_batch);
  return best;
}

AttentionCost AttentionEstimate::at_best(const Mix& mix) {
  return {bound(mix, "forward"), bound(mix, "backward"), 0};
}

const AttentionCost& AttentionEstimate::simulated(const Mix& mix) {
  const comm::Cluster share = tensor_share(options_.cluster, mix.config.tensor);
  const auto point = [&](const char* pass) {
    return point_of(options_, share, mix.config, mix.schedule, pass);
  };
  const Point forward = point("forward"), backward = point("backward");
  const Key key(mix.config.tensor, backward);
  if (const auto known = simulated_.find(key); known != simulated_.end()) return known->second;
  const Measurement back = simulate_apart(backward, {}, share);
  AttentionCost cost{attention_pass(simulate_apart(forward, {}, share)), attention_pass(back),
                     attention_workspace(backward, back)};
  return simulated_.emplace(key, cost).first->second;
}

}  // namespace ringspan::bench
