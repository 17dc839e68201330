// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "comm/all_to_all_plan.hpp"
#include "comm/collectives.hpp"
#include "comm/in_turn.hpp"
#include "comm/nodes.hpp"
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

/// The same on every rank: by the mean of all pairs, and by what rank 0 knows.
AllToAllChoice choose(const Communicator& comm, std::span<const Slice> send,
                      AllToAllAlgorithm asked) {
  if (asked == AllToAllAlgorithm::direct) return choose_all_to_all(asked, {}, 0, 1, 1);
  struct Ticket {
    std::int64_t bytes;
    bool knows;
    MessageCosts costs;
  };
  const std::optional<MessageCosts> known = comm.costs();
  Ticket mine{-send[comm.rank()].bytes(), known.has_value(), known.value_or(MessageCosts{})};
  for (const Slice& slice : send) mine.bytes += slice.bytes();
  const std::vector<Ticket> tickets = all_gather_values(comm, mine);
  std::int64_t bytes = 0;
  for (const Ticket& ticket : tickets) bytes += ticket.bytes;
  const std::int64_t size = comm.size(), pairs = std::max<std::int64_t>(size * (size - 1), 1);
  std::optional<MessageCosts> costs;
  if (tickets[0].knows) costs = tickets[0].costs;
  const Nodes nodes(comm);
  return choose_all_to_all(asked, costs, bytes / pairs, nodes.count(), nodes.largest());
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
  Steps(Communicator comm, AllToAllPlan plan, AllToAllChoice choice)
      : comm_(std::move(comm)), plan_(std::move(plan)), choice_(std::move(choice)) {}

  const AllToAllChoice& choice() const { return choice_; }

  void start() {
    require_in_turn(comm_, !started_, "all_to_all: start() before the last exchange was finished");
    arriving_.clear();
    passing_.clear();
    for (const AllToAllStage& stage : plan_.stages) {  // the network first: it is the slowest
      copy(stage.pack);
      arriving_.push_back(post(stage.outer));
    }
    own_ = post(plan_.own);
    started_ = true;
    copy(plan_.self);
  }

  void finish() {
    require_in_turn(comm_, started_, "all_to_all: finish() without start()");
    started_ = false;  // even if a wait fails: later calls then report that failure
    std::size_t unpacked = 0;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      arriving_[i].wait();
      copy(plan_.stages[i].repack);
      passing_.push_back(post(plan_.stages[i].inner));
      // What is here already, while the next stage is on the network.
      for (; unpacked < i && passing_[unpacked].test(); ++unpacked) {
        copy(plan_.stages[unpacked].unpack);
      }
    }
    for (; unpacked < passing_.size(); ++unpacked) {
      passing_[unpacked].wait();
      copy(plan_.stages[unpacked].unpack);
    }
    own_.wait();
  }

 private:
  Request post(Batch batch) const { return std::move(batch).post(comm_, kOperation); }

  void copy(const std::vector<Copy>& copies) const { comm_.device().copy_all(copies); }

  Communicator comm_;
  AllToAllPlan plan_;
  AllToAllChoice choice_;
  bool started_ = false;
  Request own_;
  std::vector<Request> arriving_, passing_;  // outer and inner, [stage]
};

AllToAll::AllToAll(Communicator comm, std::vector<Slice> send, std::vector<Slice> recv,
                   AllToAllAlgorithm algorithm) {
  require_valid(comm, send, recv);
  AllToAllChoice choice = choose(comm, send, algorithm);
  AllToAllPlan plan = choice.algorithm == AllToAllAlgorithm::hierarchical
                          ? plan_hierarchical(comm, send, recv, choice)
                          : plan_direct(comm, send, recv);
  steps_ = std::make_unique<Steps>(std::move(comm), std::move(plan), std::move(choice));
}

AllToAll::AllToAll(AllToAll&&) noexcept = default;
AllToAll& AllToAll::operator=(AllToAll&&) noexcept = default;
AllToAll::~AllToAll() = default;

void AllToAll::start() { steps_->start(); }
void AllToAll::finish() { steps_->finish(); }
const AllToAllChoice& AllToAll::choice() const { return steps_->choice(); }

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

}  // namespace ringspan::comm
