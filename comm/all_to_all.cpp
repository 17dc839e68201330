// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all.hpp"

#include <iterator>
#include <utility>

#include "comm/all_to_all_plan.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::comm {
namespace {

constexpr std::string_view kOperation = "all_to_all";

void require_valid(const Communicator& comm, std::span<const Slice> send,
                   std::span<const Slice> recv) {
  const int rank = comm.rank(), size = comm.size();
  RINGSPAN_REQUIRE(std::ssize(send) == size && std::ssize(recv) == size,
                   "all_to_all: ", send.size(), " slices to send and ", recv.size(),
                   " to receive for ", size, " ranks; there must be one of each per rank");
  for (const Slice& slice : send) require_inside(slice);
  for (const Slice& slice : recv) require_inside(slice);
  RINGSPAN_REQUIRE(send[rank].bytes() == recv[rank].bytes(), "all_to_all: rank ", rank, " has ",
                   send[rank].bytes(), " bytes for itself and expects ", recv[rank].bytes(),
                   "; both must be equal");
}

std::vector<Slice> equal_chunks(const Slice& whole, int chunks) {
  require_inside(whole);
  const bool by_rows = !whole.contiguous();
  const std::int64_t total = by_rows ? whole.rows : whole.bytes();
  RINGSPAN_REQUIRE(total % chunks == 0, "all_to_all: ", total, by_rows ? " rows" : " bytes",
                   " do not divide into ", chunks, " equal chunks; use all_to_all_v");
  std::vector<Slice> result;
  for (int i = 0; i < chunks; ++i) {
    const Part part = split_evenly(total, chunks, i);
    Slice chunk = slice(whole.buffer, whole.offset + part.first, part.count);
    if (by_rows) {
      chunk = whole;
      chunk.offset += part.first * whole.stride;
      chunk.rows = part.count;
    }
    result.push_back(std::move(chunk));
  }
  return result;
}

}  // namespace

AllToAllPlan plan_direct(const Communicator& comm, std::span<const Slice> send,
                         std::span<const Slice> recv) {
  const int rank = comm.rank(), size = comm.size();
  AllToAllPlan plan;
  plan.self.push_back({recv[rank], send[rank]});
  for (int distance = 1; distance < size; ++distance) {  // no two ranks begin with the same peer
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    plan.own.send(to, send[to]);
    plan.own.receive(from, recv[from]);
  }
  return plan;
}

class AllToAll::Steps {
 public:
  Steps(Communicator comm, AllToAllPlan plan, AllToAllAlgorithm algorithm)
      : comm_(std::move(comm)), plan_(std::move(plan)), algorithm_(algorithm) {}

  AllToAllAlgorithm algorithm() const { return algorithm_; }

  void start() {
    RINGSPAN_REQUIRE(!started_, "all_to_all: start() before the last exchange was finished");
    arriving_.clear();
    leaving_.clear();
    for (const AllToAllStage& stage : plan_.stages) {
      copy(stage.pack);
      arriving_.push_back(post(stage.outer));
    }
    leaving_.push_back(post(plan_.own));
    started_ = true;
    copy(plan_.self);
  }

  void finish() {
    RINGSPAN_REQUIRE(started_, "all_to_all: finish() without start()");
    started_ = false;  // even if a wait fails: later calls then report that failure
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      arriving_[i].wait();
      leaving_.push_back(post(plan_.stages[i].inner));
      copy(plan_.stages[i].unpack);
    }
    for (Request& request : leaving_) request.wait();
  }

 private:
  Request post(Batch batch) const { return std::move(batch).post(comm_, kOperation); }

  void copy(const std::vector<Copy>& copies) const {
    for (const Copy& each : copies) comm_.device().copy(each.to, each.from);
  }

  Communicator comm_;
  AllToAllPlan plan_;
  AllToAllAlgorithm algorithm_;
  bool started_ = false;
  std::vector<Request> arriving_;  // [stage]
  std::vector<Request> leaving_;   // of `own` and of the stages' `inner`
};

AllToAll::AllToAll(Communicator comm, std::vector<Slice> send, std::vector<Slice> recv,
                   AllToAllAlgorithm algorithm) {
  require_valid(comm, send, recv);
  const bool hierarchical = algorithm == AllToAllAlgorithm::hierarchical;
  AllToAllPlan plan =
      hierarchical ? plan_hierarchical(comm, send, recv) : plan_direct(comm, send, recv);
  steps_ = std::make_unique<Steps>(
      std::move(comm), std::move(plan),
      hierarchical ? AllToAllAlgorithm::hierarchical : AllToAllAlgorithm::direct);
}

AllToAll::AllToAll(AllToAll&&) noexcept = default;
AllToAll& AllToAll::operator=(AllToAll&&) noexcept = default;
AllToAll::~AllToAll() = default;

void AllToAll::start() { steps_->start(); }
void AllToAll::finish() { steps_->finish(); }
AllToAllAlgorithm AllToAll::algorithm() const { return steps_->algorithm(); }

void all_to_all(const Communicator& comm, const Slice& send, const Slice& recv,
                AllToAllAlgorithm algorithm) {
  all_to_all_v(comm, equal_chunks(send, comm.size()), equal_chunks(recv, comm.size()), algorithm);
}

void all_to_all_v(const Communicator& comm, std::span<const Slice> send,
                  std::span<const Slice> recv, AllToAllAlgorithm algorithm) {
  AllToAll exchange(comm, {send.begin(), send.end()}, {recv.begin(), recv.end()}, algorithm);
  exchange.start();
  exchange.finish();
}

// Times of N nodes of L ranks with s bytes per pair, a message of n bytes taking a + b n seconds
// between nodes (x) and inside one (i), a copy c n:
//   direct        (N-1) L (ax + bx s) + (L-1) (ai + bi s)
//   hierarchical  (N-1) (ax + bx L s) + N (L-1) (ai + bi s) + (N-1) (L+1) c s
// The difference, divided by N-1, has no bx: the network carries the same bytes either way.
AllToAllAlgorithm choose_all_to_all(const MessageCosts& costs, std::int64_t bytes, int nodes,
                                    int ranks_per_node) {
  const double others = ranks_per_node - 1;
  const double saved = others * (costs.inter_node_latency - costs.intra_node_latency);
  const double spent = static_cast<double>(bytes) *
                       (others * costs.intra_node_per_byte + (others + 2) * costs.copy_per_byte);
  return nodes > 1 && saved > spent ? AllToAllAlgorithm::hierarchical : AllToAllAlgorithm::direct;
}

}  // namespace ringspan::comm
