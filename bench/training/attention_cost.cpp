// SPDX-License-Identifier: Apache-2.0
#include "bench/training/attention_cost.hpp"

#include <algorithm>

#include "bench/training/layer_pass.hpp"
#include "bench/training/matrix_product.hpp"

namespace ringspan::bench {

Point attention_point(const Model& model, const comm::Cluster& cluster,
                      const TrainingConfig& config, const std::string& schedule,
                      const std::string& kernel, const std::string& pass) {
  const int in_node = std::max(cluster.gpus_per_node / config.tensor, 1);
  Point point;
  point.transport = "simulated";
  point.device = "simulated";
  point.cluster = cluster.name;
  point.kernel = kernel;
  point.schedule = schedule;
  point.pass = pass;
  point.dtype = "bf16";
  point.ranks = config.sequence_parallel();
  point.ranks_per_node = std::min<std::int64_t>(in_node, point.ranks);
  point.ulysses_degree = config.ulysses;
  point.placement = config.ring_inner ? "ring_inner" : "ulysses_inner";
  point.sequence_length = config.sequence_length;
  point.batch = config.micro_batch;
  point.heads = model.heads / config.tensor;
  point.kv_heads = kv_heads_per_rank(model, config);
  point.head_dim = model.head_dim;
  return point;
}

AttentionPass attention_pass(const Measurement& measurement) {
  const double whole = measurement.times.overlapped[0];
  const double silent = measurement.times.synchronised[0];
  AttentionPass pass{whole, std::max(whole - silent, 0.0)};
  for (const comm::Traffic& sent : measurement.sent) {
    pass.bytes = std::max(pass.bytes, sent.bytes_sent);
    pass.inter_node_bytes = std::max(pass.inter_node_bytes, sent.inter_node_bytes_sent);
  }
  return pass;
}

std::int64_t attention_workspace(const Point& point, const Measurement& backward) {
  const std::int64_t tokens =
      point.batch * ((point.sequence_length + point.ranks - 1) / point.ranks);
  // q, out and their gradients; k, v and theirs; lse.
  const std::int64_t elements = tokens * (4 * point.heads + 4 * point.kv_heads) * point.head_dim;
  const std::int64_t known = 2 * elements + 4 * tokens * point.heads;
  return std::max<std::int64_t>(backward.peak_bytes - known, 0);
}

AttentionCost materialised_attention(const Model& model, const comm::Gpu& gpu,
                                     const TrainingConfig& config) {
  const std::int64_t sequence = config.sequence_length, dim = model.head_dim;
  const std::int64_t batch = config.micro_batch * model.heads / config.tensor;
  const double to_scores = product_seconds(gpu, {sequence, sequence, dim, batch});
  const double to_heads = product_seconds(gpu, {sequence, dim, sequence, batch});
  const auto pass_over_scores = [&](double bytes_each) {
    return bytes_each * static_cast<double>(batch * sequence * sequence) /
           gpu.memory_bytes_per_second;
  };
  // Softmax in and out; dropout in, out and its mask; backward each with one gradient more.
  const double softmax = pass_over_scores(4), softmax_back = pass_over_scores(6);
  const double dropout = config.dropout ? pass_over_scores(5) : 0;
  AttentionCost cost;
  cost.forward.seconds = to_scores + to_heads + softmax + dropout;
  cost.backward.seconds = to_scores + 3 * to_heads + softmax_back + dropout;
  // While one layer runs: the gradients of its scores, before and after softmax.
  cost.workspace_bytes = 2 * 2 * batch * sequence * sequence;
  return cost;
}

}  // namespace ringspan::bench
