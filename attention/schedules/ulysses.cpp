// SPDX-License-Identifier: Apache-2.0
// DeepSpeed-Ulysses around any inner schedule. The ranks of a group share the tokens of one inner
// shard. Before attention, one all-to-all turns "own tokens, all heads" into "all tokens, own
// heads" for q, k and v together; after it, another one turns the result back. With a ring inside
// this is USP. Overlapped, heads go through all this in groups: while attention works on one, the
// next moves in and the one before moves out. The loop is in ulysses_plan.cpp.
#include <utility>
#include <vector>

#include "attention/schedules/head_split.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/ulysses_cut.hpp"
#include "attention/schedules/ulysses_plan.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

class Ulysses final : public Schedule {
 public:
  Ulysses(comm::Communicator comm, Kernels& kernels, std::unique_ptr<Schedule> inner,
          comm::AllToAllAlgorithm algorithm, int head_groups, bool resends)
      : comm_(std::move(comm)),
        kernels_(kernels),
        inner_(std::move(inner)),
        algorithm_(algorithm),
        head_groups_(head_groups),
        resends_(resends) {
    RINGSPAN_REQUIRE(head_groups >= 1, "ulysses: head_groups is ", head_groups,
                     "; it must be at least 1");
  }

  Shard shard(const Sequence& sequence) const override {
    return piece(inner_->shard(sequence), comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_valid(problem);
    const std::vector<HeadShare> shares = split_heads(problem.shape, comm_.size());
    for (const HeadShare& share : shares) {
      for (const HeadGroup& group :
           split_into_groups(problem.shape, share, possible_groups(shares, head_groups_))) {
        inner_->require_possible(with_heads(problem, group.share));
      }
    }
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    if (comm_.size() == 1) return inner_->plan(problem);
    std::vector<std::int64_t> counts;
    const Shard of_all = inner_->shard(problem.sequence);
    for (int rank = 0; rank < comm_.size(); ++rank) {
      counts.push_back(tokens(piece(of_all, comm_.size(), rank)));
    }
    ShardContract contract{problem, counts[comm_.rank()],
                           concat("ulysses: piece ", comm_.rank(), " of ", comm_.size(),
                                  " of the inner schedule's shard")};
    UlyssesCut cut(problem.shape, std::move(counts), head_groups_);
    std::vector<std::unique_ptr<Plan>> inner;
    for (int group = 0; group < cut.groups(); ++group) {
      inner.push_back(inner_->plan(with_heads(problem, cut.group(comm_.rank(), group).share)));
    }
    return make_ulysses_plan(comm_, kernels_, algorithm_, std::move(contract), std::move(cut),
                             std::move(inner), resends_);
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  std::unique_ptr<Schedule> inner_;
  comm::AllToAllAlgorithm algorithm_;
  int head_groups_;
  bool resends_;
};

}  // namespace

std::unique_ptr<Schedule> make_ulysses(comm::Communicator comm, Kernels& kernels,
                                       std::unique_ptr<Schedule> inner,
                                       comm::AllToAllAlgorithm algorithm, int head_groups,
                                       bool resends) {
  return std::make_unique<Ulysses>(std::move(comm), kernels, std::move(inner), algorithm,
                                   head_groups, resends);
}

}  // namespace ringspan::attention
