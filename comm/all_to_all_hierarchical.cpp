// SPDX-License-Identifier: Apache-2.0
// All-to-all between nodes first. What a rank has for all ranks of another node travels as one
// message to its counterpart there, which passes the parts on inside its node, straight into the
// slices where they are wanted. One stage per distance between nodes, so that one distance is
// passed on while the next is still on the network.
#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/all_to_all.hpp"
#include "comm/all_to_all_plan.hpp"

namespace ringspan::comm {
namespace {

/// The ranks of a group by node.
class Nodes {
 public:
  explicit Nodes(const Communicator& comm) : where_(comm.size()) {
    std::vector<int> names;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const int name = comm.place(rank).node;
      const auto found = std::find(names.begin(), names.end(), name);
      const int node = static_cast<int>(found - names.begin());
      if (found == names.end()) {
        names.push_back(name);
        ranks_.emplace_back();
      }
      where_[rank] = {node, static_cast<int>(ranks_[node].size())};
      ranks_[node].push_back(rank);
    }
  }

  int count() const { return static_cast<int>(ranks_.size()); }
  int node(int rank) const { return where_[rank].node; }
  int index(int rank) const { return where_[rank].index; }
  const std::vector<int>& ranks(int node) const { return ranks_[node]; }

  /// The rank of `node` that receives for all of it what `source` sends there: the one of equal
  /// index, on a smaller node the index wrapped around. On its own node a rank receives for itself.
  int counterpart(int source, int node) const {
    return ranks_[node][where_[source].index % ranks_[node].size()];
  }

  /// The ranks of `node` that `receiver` receives for.
  std::vector<int> sources(int receiver, int node) const {
    std::vector<int> sources;
    for (const int source : ranks_[node]) {
      if (counterpart(source, where_[receiver].node) == receiver) sources.push_back(source);
    }
    return sources;
  }

 private:
  struct Where {
    int node, index;
  };
  std::vector<std::vector<int>> ranks_;  // [node][index], in the order of the group
  std::vector<Where> where_;             // [rank]
};

/// The values as memory to copy from or to; only borrowed.
Buffer on_host(std::vector<std::int64_t>& values) {
  return Buffer(reinterpret_cast<std::byte*>(values.data()),
                std::ssize(values) * sizeof(std::int64_t), {});
}

/// [source][i]: the bytes that `source` has for rank i of this node, of the sources that this rank
/// receives for.
using Sizes = std::vector<std::vector<std::int64_t>>;

Sizes exchange_sizes(const Communicator& comm, const Nodes& nodes, std::span<const Slice> send) {
  constexpr std::int64_t kWidth = sizeof(std::int64_t);
  const int rank = comm.rank();
  std::vector<std::int64_t> sizes;  // of all that this rank sends, node by node
  std::vector<int> sources;
  for (int node = 0; node < nodes.count(); ++node) {
    for (const int destination : nodes.ranks(node)) sizes.push_back(send[destination].bytes());
    for (const int source : nodes.sources(rank, node)) sources.push_back(source);
  }
  const std::int64_t row = std::ssize(nodes.ranks(nodes.node(rank))) * kWidth;
  const Buffer outgoing = comm.device().allocate(std::ssize(sizes) * kWidth);
  const Buffer incoming = comm.device().allocate(std::ssize(sources) * row);
  std::vector<Slice> to(comm.size()), from(comm.size());
  for (std::int64_t node = 0, offset = 0; node < nodes.count(); ++node) {
    const std::int64_t bytes = std::ssize(nodes.ranks(node)) * kWidth;
    to[nodes.counterpart(rank, node)] = slice(outgoing, offset, bytes);
    offset += bytes;
  }
  for (std::size_t i = 0; i < sources.size(); ++i) from[sources[i]] = slice(incoming, i * row, row);

  comm.device().copy(whole(outgoing), whole(on_host(sizes)));
  all_to_all_v(comm, to, from);
  Sizes result(comm.size());
  for (const int source : sources) {
    result[source].resize(row / kWidth);
    comm.device().copy(whole(on_host(result[source])), from[source]);
  }
  comm.device().synchronize(comm.deadline());
  return result;
}

class Planner {
 public:
  Planner(const Communicator& comm, std::span<const Slice> send, std::span<const Slice> recv)
      : comm_(comm),
        send_(send),
        recv_(recv),
        nodes_(comm),
        sizes_(exchange_sizes(comm, nodes_, send)),
        neighbours_(nodes_.ranks(nodes_.node(comm.rank()))) {
    // This rank first, so that no two ranks of the node begin with the same peer.
    std::rotate(neighbours_.begin(), neighbours_.begin() + nodes_.index(comm.rank()),
                neighbours_.end());
  }

  AllToAllPlan plan() const {
    const int here = nodes_.node(comm_.rank()), count = nodes_.count();
    AllToAllPlan plan;
    plan.self.push_back({recv_[comm_.rank()], send_[comm_.rank()]});
    for (const int peer : neighbours_) {
      if (peer == comm_.rank()) continue;
      plan.own.send(peer, send_[peer]);
      plan.own.receive(peer, recv_[peer]);
    }
    for (int distance = 1; distance < count; ++distance) {
      AllToAllStage& stage = plan.stages.emplace_back();
      send_ahead(stage, (here + distance) % count);
      receive_behind(stage, (here + count - distance) % count);
    }
    return plan;
  }

 private:
  /// send[destinations of the node] -> [destination][its bytes], one message
  void send_ahead(AllToAllStage& stage, int node) const {
    std::int64_t bytes = 0;
    for (const int destination : nodes_.ranks(node)) bytes += send_[destination].bytes();
    const Buffer packed = comm_.device().allocate(bytes);
    std::int64_t offset = 0;
    for (const int destination : nodes_.ranks(node)) {
      const Slice& part = send_[destination];
      stage.pack.push_back({slice(packed, offset, part.bytes()), part});
      offset += part.bytes();
    }
    stage.outer.send(nodes_.counterpart(comm_.rank(), node), whole(packed));
  }

  void receive_behind(AllToAllStage& stage, int node) const {
    for (const int source : nodes_.sources(comm_.rank(), node)) pass_on(stage, source);
    for (const int peer : neighbours_) {
      if (peer == comm_.rank()) continue;
      for (const int source : nodes_.sources(peer, node)) {
        stage.inner.receive(peer, recv_[source]);
      }
    }
  }

  /// One message of `source` -> [destination][its bytes] -> recv[source] of every destination
  void pass_on(AllToAllStage& stage, int source) const {
    const std::vector<std::int64_t>& sizes = sizes_[source];
    std::vector<std::int64_t> offsets(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), std::int64_t{0});
    const Buffer arrived = comm_.device().allocate(offsets.back() + sizes.back());
    stage.outer.receive(source, whole(arrived));
    for (const int destination : neighbours_) {
      const int index = nodes_.index(destination);
      const Slice part = slice(arrived, offsets[index], sizes[index]);
      if (destination != comm_.rank()) {
        stage.inner.send(destination, part);
        continue;
      }
      if (part.bytes() != recv_[source].bytes()) fail_to_agree(source, part.bytes());
      stage.unpack.push_back({recv_[source], part});
    }
  }

  /// Sizes have travelled already, so this is no mere refusal: every rank must hear of it.
  [[noreturn]] void fail_to_agree(int source, std::int64_t bytes) const {
    const int from = comm_.world_rank(source), to = comm_.world_rank(comm_.rank());
    const Error cause(ErrorKind::peer_failed,
                      concat("all_to_all: rank ", from, " sends ", bytes, " bytes to rank ", to,
                             ", which expects ", recv_[source].bytes(), " bytes"),
                      {to, from, "all_to_all"});
    comm_.abort(cause);
    throw cause;
  }

  const Communicator& comm_;
  std::span<const Slice> send_, recv_;
  Nodes nodes_;
  Sizes sizes_;
  std::vector<int> neighbours_;
};

}  // namespace

AllToAllPlan plan_hierarchical(const Communicator& comm, std::span<const Slice> send,
                               std::span<const Slice> recv) {
  return Planner(comm, send, recv).plan();
}

}  // namespace ringspan::comm
