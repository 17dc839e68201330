// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/gpu_seconds.hpp"

#include <algorithm>

#include "attention/kernels/kernel_seconds.hpp"

namespace ringspan::attention {

double GpuSeconds::kernel(KernelPass pass, std::span<const Tile> tiles, double flops_per_pair,
                          std::int64_t rows) const {
  const double head_dim = static_cast<double>(shape_.head_dim + shape_.value_dim) / 2;
  const KernelCurve& curve = kernel_curve(gpu_.kind, library_.library, pass, head_dim);
  const std::int64_t heads = shape_.batch * shape_.heads;
  return call_seconds(curve, tiles, flops_per_pair, heads, rows, gpu_.multiprocessors) /
         gpu_.attention_speed;
}

double GpuSeconds::attend(std::span<const Tile> tiles, std::int64_t tokens, std::int64_t keys,
                          bool first) const {
  if (tiles.empty()) return 0;
  const CallRows called = call_rows(tiles, keys);
  const double eager = called.queries < tokens ? 38 + 8 : 38;
  const double bytes = first ? 6 : library_.fused_merge ? 10 : eager;  // per element of out
  const auto flops = static_cast<double>(2 * (shape_.head_dim + shape_.value_dim));
  return kernel(KernelPass::forward, tiles, flops, called.queries) +
         moved(bytes * static_cast<double>(called.queries) * query_elements(shape_.value_dim));
}

double GpuSeconds::differentiate(std::span<const Tile> tiles, std::int64_t keys) const {
  if (tiles.empty()) return 0;
  const CallRows called = call_rows(tiles, keys);
  constexpr double bytes = 10;  // per element of dq, dk and dv
  const auto flops = static_cast<double>(2 * (3 * shape_.head_dim + 2 * shape_.value_dim));
  return kernel(KernelPass::backward, tiles, flops, called.keys) +
         moved(bytes * (static_cast<double>(called.queries) * query_elements(shape_.head_dim) +
                        static_cast<double>(called.keys) * kv_elements()));
}

double message_seconds(const comm::Cluster& cluster, int ranks, int at_once, double bytes) {
  const auto message =
      comm::model_message(cluster, {ranks, true}, false, static_cast<std::int64_t>(bytes));
  const double share = cluster.fabric.gpu_bytes_per_second / at_once;
  return message.latency_seconds +
         message.wire_bytes / std::min(message.most_bytes_per_second, share);
}

}  // namespace ringspan::attention
