// SPDX-License-Identifier: Apache-2.0
// All-to-all between nodes first. What a rank has for all ranks of another node travels as one
// message to its counterpart there, which passes the parts on inside its node. A stage takes the
// nodes of some neighbouring distances, so that one stage is passed on while the next is still on
// the network; within a stage, what goes to one rank is one message. Joined, the messages are those
// of stages of one node each, which no rank has to pack or unpack, and posts those of one stage.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "comm/all_to_all.hpp"
#include "comm/all_to_all_plan.hpp"
#include "comm/devices/host.hpp"
#include "comm/nodes.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::comm {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

/// The values as memory to copy from or to; only borrowed.
Buffer on_host(Sizes& values) {
  return Buffer(reinterpret_cast<std::byte*>(values.data()),
                std::ssize(values) * sizeof(std::int64_t), {});
}

/// values[i] go to rank i; counts[i] come from there.
std::vector<Sizes> exchange_values(const Communicator& comm, std::vector<Sizes> values,
                                   const std::vector<std::int64_t>& counts) {
  constexpr std::int64_t kWidth = sizeof(std::int64_t);
  std::vector<Slice> to(comm.size()), from(comm.size());
  std::vector<Sizes> result(comm.size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    result[rank].resize(counts[rank]);
    from[rank] = whole(comm.device().allocate_values(counts[rank] * kWidth));
    to[rank] = whole(comm.device().allocate_values(std::ssize(values[rank]) * kWidth));
    copy_slice(to[rank], whole(on_host(values[rank])));
  }
  all_to_all_v(comm, to, from);
  comm.device().synchronize(comm.deadline());
  for (int rank = 0; rank < comm.size(); ++rank) {
    copy_slice(whole(on_host(result[rank])), from[rank]);
  }
  return result;
}

/// The parts as one message if they lie one after the other, or if there is but one.
std::optional<Slice> one_run(const std::vector<Slice>& parts) {
  Slice run;
  for (const Slice& part : parts) {
    if (part.bytes() == 0) continue;
    if (run.bytes() == 0) {
      run = part;
      continue;
    }
    const bool adjacent = run.buffer.data() == part.buffer.data() && run.contiguous() &&
                          part.contiguous() && run.offset + run.bytes() == part.offset;
    if (!adjacent) return std::nullopt;
    run = slice(std::move(run.buffer), run.offset, run.bytes() + part.bytes());
  }
  return run;
}

void append(std::vector<Copy>& copies, const std::vector<Copy>& others) {
  copies.insert(copies.end(), others.begin(), others.end());
}

/// All of them as one, which posts their messages together.
AllToAllStage joined(std::vector<AllToAllStage> stages) {
  AllToAllStage one;
  for (AllToAllStage& stage : stages) {
    append(one.pack, stage.pack);
    one.outer.append(std::move(stage.outer));
    append(one.repack, stage.repack);
    one.inner.append(std::move(stage.inner));
    append(one.unpack, stage.unpack);
  }
  return one;
}

class Planner {
 public:
  Planner(const Communicator& comm, std::span<const Slice> send, std::span<const Slice> recv)
      : comm_(comm),
        send_(send),
        recv_(recv),
        nodes_(comm),
        here_(nodes_.node(comm.rank())),
        neighbours_(nodes_.ranks(here_)) {
    // This rank first, so that no two ranks of the node begin with the same peer.
    std::rotate(neighbours_.begin(), neighbours_.begin() + nodes_.index(comm.rank()),
                neighbours_.end());
    exchange_sizes();
    require_agreement();
    allocate_arriving();
  }

  AllToAllPlan plan(const AllToAllChoice& choice) const {
    AllToAllPlan plan;
    for (int stage = 0; stage < choice.stages; ++stage) {
      const Part distances = split_evenly(nodes_.count() - 1, choice.stages, stage);
      plan.stages.push_back(
          plan_stage(static_cast<int>(distances.first) + 1, static_cast<int>(distances.count)));
    }
    if (choice.joined) plan.stages = {joined(std::move(plan.stages))};
    // Together with others of their kind: alone they would only hold up the host.
    const bool alone = plan.stages.empty();
    Batch& own = alone ? plan.own : plan.stages.front().outer;
    for (const int peer : neighbours_) {
      if (peer == comm_.rank()) continue;
      own.send(peer, send_[peer]);
      own.receive(peer, recv_[peer]);
    }
    (alone ? plan.self : plan.stages.front().unpack)
        .push_back({recv_[comm_.rank()], send_[comm_.rank()]});
    return plan;
  }

 private:
  /// What each source that this rank receives for has for the ranks of this node.
  void exchange_sizes() {
    std::vector<Sizes> values(comm_.size());
    std::vector<std::int64_t> counts(comm_.size());
    for (int node = 0; node < nodes_.count(); ++node) {
      Sizes& sizes = values[nodes_.counterpart(comm_.rank(), node)];
      for (const int destination : nodes_.ranks(node)) sizes.push_back(send_[destination].bytes());
      for (const int source : nodes_.sources(comm_.rank(), node)) {
        counts[source] = std::ssize(neighbours_);
      }
    }
    sizes_ = exchange_values(comm_, std::move(values), counts);
  }

  /// What passes on has no other occasion to be compared with what is expected: parts of a message
  /// could make up for each other. So the sizes are passed on first.
  void require_agreement() const {
    std::vector<Sizes> values(comm_.size());
    std::vector<std::int64_t> counts(comm_.size());
    for (const int peer : neighbours_) {
      for (const int source : all_sources(comm_.rank())) {
        values[peer].push_back(sizes_[source][nodes_.index(peer)]);
      }
      counts[peer] = std::ssize(all_sources(peer));
    }
    const std::vector<Sizes> sent = exchange_values(comm_, std::move(values), counts);
    for (const int peer : neighbours_) {
      const std::vector<int> sources = all_sources(peer);
      for (std::size_t i = 0; i < sources.size(); ++i) require_equal(sources[i], sent[peer][i]);
    }
  }

  std::vector<int> all_sources(int receiver) const {
    std::vector<int> all;
    for (int node = 0; node < nodes_.count(); ++node) {
      for (const int source : nodes_.sources(receiver, node)) all.push_back(source);
    }
    return all;
  }

  /// Sizes have travelled already, so this is no mere refusal: every rank must hear of it.
  void require_equal(int source, std::int64_t bytes) const {
    if (bytes == recv_[source].bytes()) return;
    const int from = comm_.world_rank(source), to = comm_.world_rank(comm_.rank());
    const Error cause(ErrorKind::peer_failed,
                      concat("all_to_all: rank ", from, " sends ", bytes, " bytes to rank ", to,
                             ", which expects ", recv_[source].bytes(), " bytes"),
                      {to, from, "all_to_all"});
    comm_.abort(cause);
    throw cause;
  }

  /// One buffer for all that is passed on or taken out, which a vendor has to get to know once.
  void allocate_arriving() {
    arriving_.resize(comm_.size());
    std::int64_t bytes = 0;
    for (int source = 0; source < comm_.size(); ++source) {
      if (nodes_.node(source) != here_) bytes += sum(sizes_[source]);
    }
    const Buffer buffer = comm_.device().allocate(bytes);
    std::int64_t offset = 0;
    for (int source = 0; source < comm_.size(); ++source) {
      if (nodes_.node(source) == here_) continue;
      arriving_[source] = slice(buffer, offset, sum(sizes_[source]));
      offset += arriving_[source].bytes();
    }
  }

  AllToAllStage plan_stage(int first, int count) const {
    AllToAllStage stage;
    std::vector<int> behind;  // nodes
    for (int distance = first; distance < first + count; ++distance) {
      send_ahead(stage, (here_ + distance) % nodes_.count());
      behind.push_back((here_ + nodes_.count() - distance) % nodes_.count());
    }
    receive_behind(stage, behind);
    for (const int peer : neighbours_) {
      if (peer == comm_.rank()) continue;
      pass_on(stage, peer, behind);
      receive_passed(stage, peer, behind);
    }
    return stage;
  }

  /// send[destinations of the node] -> [destination][its bytes], one message
  void send_ahead(AllToAllStage& stage, int node) const {
    std::vector<Slice> parts;
    for (const int destination : nodes_.ranks(node)) parts.push_back(send_[destination]);
    stage.outer.send(nodes_.counterpart(comm_.rank(), node), packed(parts, stage.pack));
  }

  /// [destination][its bytes] of each source; of it, what is for this rank goes to recv.
  void receive_behind(AllToAllStage& stage, const std::vector<int>& nodes) const {
    for (const int node : nodes) {
      for (const int source : nodes_.sources(comm_.rank(), node)) {
        stage.outer.receive(source, arriving_[source]);
        stage.unpack.push_back({recv_[source], part_of(source, comm_.rank())});
      }
    }
  }

  /// What has arrived for `peer` -> [source][its bytes], one message
  void pass_on(AllToAllStage& stage, int peer, const std::vector<int>& nodes) const {
    std::vector<Slice> parts;
    for (const int node : nodes) {
      for (const int source : nodes_.sources(comm_.rank(), node)) {
        parts.push_back(part_of(source, peer));
      }
    }
    stage.inner.send(peer, packed(parts, stage.repack));
  }

  /// The same from `peer` -> recv[source]
  void receive_passed(AllToAllStage& stage, int peer, const std::vector<int>& nodes) const {
    std::vector<Slice> parts;
    for (const int node : nodes) {
      for (const int source : nodes_.sources(peer, node)) parts.push_back(recv_[source]);
    }
    std::vector<Copy> pack;
    stage.inner.receive(peer, packed(parts, pack));
    for (Copy& copy : pack) stage.unpack.push_back({std::move(copy.from), std::move(copy.to)});
  }

  /// Of what arrived from `source`, the bytes for `destination`.
  Slice part_of(int source, int destination) const {
    const Sizes& sizes = sizes_[source];
    const int index = nodes_.index(destination);
    const std::int64_t offset =
        std::accumulate(sizes.begin(), sizes.begin() + index, std::int64_t{0});
    return slice(arriving_[source].buffer, arriving_[source].offset + offset, sizes[index]);
  }

  /// The parts as one message: where they lie, or in staging memory, and then how they get there.
  Slice packed(const std::vector<Slice>& parts, std::vector<Copy>& pack) const {
    if (std::optional<Slice> run = one_run(parts)) return std::move(*run);
    std::int64_t bytes = 0;
    for (const Slice& part : parts) bytes += part.bytes();
    const Buffer staging = comm_.device().allocate(bytes);
    std::int64_t offset = 0;
    for (const Slice& part : parts) {
      if (part.bytes() > 0) pack.push_back({slice(staging, offset, part.bytes()), part});
      offset += part.bytes();
    }
    return whole(staging);
  }

  const Communicator& comm_;
  std::span<const Slice> send_, recv_;
  const Nodes nodes_;
  const int here_;               // node
  std::vector<int> neighbours_;  // ranks of this node
  std::vector<Sizes> sizes_;     // [source][index in this node], of what this rank receives
  std::vector<Slice> arriving_;  // [source]: where that does, [index in this node][its bytes]
};

}  // namespace

AllToAllPlan plan_hierarchical(const Communicator& comm, std::span<const Slice> send,
                               std::span<const Slice> recv, const AllToAllChoice& choice) {
  return Planner(comm, send, recv).plan(choice);
}

}  // namespace ringspan::comm
