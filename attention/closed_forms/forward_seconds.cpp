// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/forward_seconds.hpp"

#include <algorithm>
#include <utility>

#include "attention/kernels/kernel_seconds.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

/// When work that begins at `start` ends, if two messages (one out, one in, of no length if there
/// is none) slow it down while either is under way; neither begins before the work does.
double end_of_work(double start, double work, double slowdown, double first_start, double first_end,
                   double second_start, double second_end) {
  if (second_start < first_start) {
    std::swap(first_start, second_start);
    std::swap(first_end, second_end);
  }
  second_start = std::max(second_start, first_end);  // what both slow down counts once
  double now = start;
  for (const auto& [from, to] : {std::pair(first_start, first_end), {second_start, second_end}}) {
    if (to <= from) continue;
    if (now + work <= from) return now + work;
    work -= from - now;
    const double slowed = slowed_seconds(work, to - from, slowdown);
    if (slowed <= to - from) return from + slowed;
    work -= (to - from) / slowdown;
    now = to;
  }
  return now + work;
}

/// The parts of a pass on one GPU.
class Parts {
 public:
  Parts(const Problem& problem, const comm::Cluster& cluster, const ModelledLibrary& library)
      : shape_(problem.shape), gpu_(cluster.gpu), library_(library) {}

  double element() const { return static_cast<double>(element_bytes(shape_.dtype)); }
  double kv_row_bytes() const {
    return element() * static_cast<double>(shape_.batch * shape_.kv_heads *
                                           (shape_.head_dim + shape_.value_dim));
  }
  double out_row_bytes() const { return element() * rows(shape_.value_dim); }
  double q_row_bytes() const { return element() * rows(shape_.head_dim); }

  double moved(double bytes) const { return bytes / gpu_.memory_bytes_per_second; }

  /// The identity is filled in: out, max and sum in fp32.
  double begin(std::int64_t tokens) const { return moved(tokens * 4 * rows(shape_.value_dim + 2)); }
  /// The same is read, and out written.
  double end(std::int64_t tokens) const { return begin(tokens) + moved(tokens * out_row_bytes()); }

  /// One call, and its merge.
  double attend(std::span<const Tile> tiles, std::int64_t tokens, std::int64_t keys,
                bool first) const {
    if (tiles.empty()) return 0;
    const double dims = static_cast<double>(shape_.head_dim + shape_.value_dim);
    const KernelCurve& curve =
        kernel_curve(gpu_.kind, library_.library, KernelPass::forward, dims / 2);
    const CallRows called = call_rows(tiles, keys);
    const std::int64_t heads = shape_.batch * shape_.heads;
    const std::int64_t blocks =
        heads * ((called.queries + curve.block_rows - 1) / curve.block_rows);
    const double eager = called.queries < tokens ? 38 + 8 : 38;
    const double merge_bytes = first ? 6 : library_.fused_merge ? 10 : eager;
    return kernel_seconds(curve, tiles, 2 * dims, heads) *
               wave_factor(blocks, gpu_.multiprocessors, curve.persistent) / gpu_.attention_speed +
           moved(merge_bytes * static_cast<double>(called.queries) * rows(shape_.value_dim));
  }

 private:
  double rows(std::int64_t dim) const {
    return static_cast<double>(shape_.batch * shape_.heads * dim);
  }

  const Shape& shape_;
  const comm::Gpu& gpu_;
  const ModelledLibrary& library_;
};

/// So many messages of so many bytes at once, over each port.
double message_seconds(const comm::Cluster& cluster, int ranks, int at_once, double bytes) {
  const auto message =
      comm::model_message(cluster, {ranks, true}, false, static_cast<std::int64_t>(bytes));
  const double share = cluster.fabric.gpu_bytes_per_second / at_once;
  return message.latency_seconds +
         message.wire_bytes / std::min(message.most_bytes_per_second, share);
}

double ring_forward(const Problem& problem, LayoutKind layout, const comm::Cluster& cluster,
                    const ModelledLibrary& library, int ranks) {
  const Parts parts(problem, cluster, library);
  const std::vector<Shard> shards = attention::shards(layout, problem.sequence, ranks);
  const auto seen = [&](int rank, int owner) {
    return visible_tiles(shards[rank], shards[owner], problem.sequence, problem.mask);
  };
  std::vector<int> journeys(ranks,
                            ranks - 1);  // hops of each rank's block, up to the last to see it
  for (int owner = 0; owner < ranks; ++owner) {
    int& hops = journeys[owner];
    while (hops > 0 && seen((owner + hops) % ranks, owner).empty()) --hops;
  }
  std::vector<std::vector<double>> work(ranks), messages(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t own = tokens(shards[rank]);
    const double load = journeys[rank] > 0 ? parts.moved(2 * own * parts.kv_row_bytes()) : 0;
    work[rank] = {parts.begin(own) + load};
    messages[rank] = {0};
    for (int step = 0; step < ranks; ++step) {
      const int owner = (rank - step + ranks) % ranks;
      const std::int64_t keys = tokens(shards[owner]);
      work[rank].push_back(parts.attend(seen(rank, owner), own, keys, step == 0));
      messages[rank].push_back(step < journeys[owner]
                                   ? message_seconds(cluster, ranks, 1, keys * parts.kv_row_bytes())
                                   : 0);
    }
    work[rank].push_back(parts.end(own));
    messages[rank].push_back(0);
  }
  return ring_seconds(work, messages, cluster.fabric.messages.kernel_slowdown);
}

double ulysses_forward(const Problem& problem, const comm::Cluster& cluster,
                       const ModelledLibrary& library, int ranks) {
  const std::int64_t all = problem.sequence.length, own = all / ranks;
  RINGSPAN_REQUIRE(problem.shape.kv_heads % ranks == 0 && all % ranks == 0,
                   "forward_seconds: ", ranks, " ranks must divide ", problem.shape.kv_heads,
                   " KV heads and ", all, " tokens");
  const Parts parts(problem, cluster, library);
  Problem here = problem;
  here.shape.heads /= ranks;
  here.shape.kv_heads /= ranks;
  const Parts inner(here, cluster, library);
  const double slowdown = cluster.fabric.messages.kernel_slowdown;

  // What stays on the rank is copied while the rest is on its way.
  const auto exchange = [&](double row_bytes) {
    const double part = static_cast<double>(own) * row_bytes / ranks;
    const double messages = message_seconds(cluster, ranks, ranks - 1, part);
    return std::max(messages, slowed_seconds(parts.moved(2 * part), messages, slowdown));
  };
  const double qkv = parts.q_row_bytes() + parts.kv_row_bytes();
  const Shard whole{{0, 1, all}};
  const std::vector<Tile> tiles = visible_tiles(whole, whole, problem.sequence, problem.mask);
  return parts.moved(2 * static_cast<double>(own) * qkv) + exchange(qkv) + inner.begin(all) +
         inner.attend(tiles, all, all, true) + inner.end(all) + exchange(parts.out_row_bytes()) +
         parts.moved(2 * static_cast<double>(own) * parts.out_row_bytes());
}

}  // namespace

double slowed_seconds(double kernel_seconds, double message_seconds, double slowdown) {
  if (kernel_seconds * slowdown <= message_seconds) return kernel_seconds * slowdown;
  return kernel_seconds + message_seconds * (1 - 1 / slowdown);
}

double ring_seconds(const std::vector<std::vector<double>>& work,
                    const std::vector<std::vector<double>>& messages, double slowdown) {
  const std::size_t ranks = work.size();
  std::vector<double> ended(ranks, 0);
  for (std::size_t step = 0; step < work[0].size(); ++step) {
    const std::vector<double> before = ended;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
      const double out = std::max(before[rank], before[next]);
      const double in = std::max(before[rank], before[prev]);
      const double out_end = out + messages[rank][step], in_end = in + messages[prev][step];
      const bool sends = out_end > out, receives = in_end > in;
      ended[rank] =
          std::max({end_of_work(before[rank], work[rank][step], slowdown, out, out_end, in, in_end),
                    sends ? out_end : 0, receives ? in_end : 0});
    }
  }
  return *std::max_element(ended.begin(), ended.end());
}

double forward_seconds(std::string_view schedule, const Problem& problem,
                       const comm::Cluster& cluster, const ModelledLibrary& library, int ranks) {
  RINGSPAN_REQUIRE(
      ranks <= cluster.gpus_per_node && cluster.fabric.gpus_per_switch == cluster.gpus_per_node,
      "forward_seconds: ", ranks, " ranks must be on one switch");
  if (schedule == "ulysses") return ulysses_forward(problem, cluster, library, ranks);
  RINGSPAN_REQUIRE(schedule == "ring" || schedule == "striped" || schedule == "zigzag",
                   "forward_seconds: no closed form for ", schedule,
                   "; known are ring, striped, zigzag, ulysses");
  return ring_forward(problem, schedule_entry(schedule).layout, cluster, library, ranks);
}

}  // namespace ringspan::attention
