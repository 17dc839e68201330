// SPDX-License-Identifier: Apache-2.0
// The suite judges by matches(). Here it has to reject rings with faults that were met in the
// field: those of a widely copied sample, and those of backward passes.
#include <cmath>
#include <limits>

#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace {

enum class Fault {
  none,
  sends_own_block,  // at every step, instead of what came in: right on two ranks only
  sums_outputs,     // of blocks that are normalised each for itself
  row_max_as_lse,
  no_scale,
  no_mask,
  lse_of_the_block,  // backward with each block's own lse and delta
  rereads_own_kv,    // backward with the keys and values of the first step at every step
  keeps_own_share,   // backward without what other ranks add to dk and dv
};

/// Does on gathered keys and values what a ring does on travelling ones, on one rank.
class FaultyRing {
 public:
  FaultyRing(comm::Communicator comm, const Problem& problem, const OracleInputs& inputs,
             Fault fault)
      : comm_(std::move(comm)),
        problem_(problem),
        fault_(fault),
        kernels_(make_kernels("reference", comm_.device())),
        tensors_(comm_.device(), problem, shard_of(comm_.rank()), inputs),
        out_(per_query(problem.shape.value_dim)),
        max_(per_query(1)),
        sum_(per_query(1)),
        logits_{.scale = fault == Fault::no_scale ? 1 : 1 / std::sqrt(problem.shape.head_dim)} {
    kernels_->prepare(problem.shape);
    const Shape& s = problem.shape;
    for (int rank = 0; rank < comm_.size(); ++rank) {  // as a ring hands them on
      const Array k = take_tokens(inputs.k, positions(shard_of(rank)));
      const Array v = take_tokens(inputs.v, positions(shard_of(rank)));
      k_.push_back(make_tensor(comm_.device(), k, s.dtype));
      v_.push_back(make_tensor(comm_.device(), v, s.dtype));
      dk_.push_back(make_tensor(comm_.device(), Array(k.batch, k.tokens, k.heads, k.dim), s.dtype));
      dv_.push_back(make_tensor(comm_.device(), Array(v.batch, v.tokens, v.heads, v.dim), s.dtype));
    }
  }

  const RankTensors& run() {
    forward();
    backward();
    return tensors_;
  }

 private:
  void forward() {
    const Tensor sum = per_query(problem_.shape.value_dim);
    kernels_->fill(sum, 0);
    begin();
    for (int step = 0; step < comm_.size(); ++step) {
      if (fault_ == Fault::sums_outputs) begin();
      attend(step);
      if (fault_ != Fault::sums_outputs) continue;
      kernels_->finalize(partial(), nullptr, tensors_.out, tensors_.lse);
      kernels_->accumulate(tensors_.out, sum);
    }
    kernels_->finalize(partial(), nullptr, tensors_.out, tensors_.lse);
    if (fault_ == Fault::sums_outputs) kernels_->copy(sum, tensors_.out);
    if (fault_ == Fault::row_max_as_lse) kernels_->copy(max_, tensors_.lse);
  }

  void backward() {
    const Tensor out = per_query(problem_.shape.value_dim), lse = per_query(1),
                 delta = per_query(1);
    kernels_->copy(tensors_.out, out);
    kernels_->copy(tensors_.lse, lse);
    kernels_->fill(tensors_.dq, 0);
    for (int step = 0; step < comm_.size(); ++step) {
      if (fault_ == Fault::lse_of_the_block) {
        begin();
        attend(step);
        kernels_->finalize(partial(), nullptr, out, lse);
      }
      kernels_->delta(out, tensors_.d_out, lse, nullptr, delta, nullptr);
      const int seen = fault_ == Fault::rereads_own_kv ? owner(0) : contents(step);
      kernels_->backward(
          {tensors_.q, k_[seen], v_[seen], tiles(step), logits_, lse, delta, tensors_.d_out},
          tensors_.dq, dk_[owner(step)], dv_[owner(step)]);
    }
    sum_over_ranks(dk_, tensors_.dk);
    sum_over_ranks(dv_, tensors_.dv);
  }

  void begin() {
    kernels_->fill(out_, 0);
    kernels_->fill(max_, -std::numeric_limits<double>::infinity());
    kernels_->fill(sum_, 0);
  }

  void attend(int step) {
    const int seen = contents(step);
    kernels_->forward({tensors_.q, k_[seen], v_[seen], tiles(step), logits_}, partial());
  }

  void sum_over_ranks(const std::vector<Tensor>& shares, const TensorView& own) {
    std::vector<comm::Slice> parts;
    for (const Tensor& share : shares) parts.push_back(comm::whole(share.buffer()));
    if (fault_ != Fault::keeps_own_share) {
      comm::reduce_scatter(comm_, parts, comm::Element::f32);
    }
    kernels_->copy(shares[comm_.rank()], own);
  }

  /// The rank whose block ought to be here, and the one whose block is.
  int owner(int step) const { return (comm_.rank() + comm_.size() - step) % comm_.size(); }
  int contents(int step) const {
    return fault_ == Fault::sends_own_block ? owner(std::min(step, 1)) : owner(step);
  }

  const std::vector<Tile>& tiles(int step) {
    const Mask mask = fault_ == Fault::no_mask ? Mask{} : problem_.mask;
    tiles_ = visible_tiles(shard_of(comm_.rank()), shard_of(owner(step)), problem_.sequence, mask);
    return tiles_;
  }

  Shard shard_of(int rank) const {
    return shard(LayoutKind::striped, problem_.sequence, comm_.size(), rank);
  }
  Tensor per_query(std::int64_t head_dim) const {
    const TensorView& q = tensors_.q.view();
    return Tensor(comm_.device(), DType::f32, q.batch, q.tokens, q.heads, head_dim);
  }
  Partial partial() const { return {out_, max_, sum_}; }

  comm::Communicator comm_;
  const Problem& problem_;
  Fault fault_;
  std::unique_ptr<Kernels> kernels_;
  RankTensors tensors_;
  Tensor out_, max_, sum_;
  Logits logits_;
  std::vector<Tensor> k_, v_, dk_, dv_;  // [rank]
  std::vector<Tile> tiles_;
};

bool passes(Fault fault, int ranks, std::string_view mask) {
  const Problem problem = make_problem(
      mask, 24, {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = 6});
  const OracleInputs inputs = random_inputs(problem, 9);
  const OracleResults expected = oracle(problem, inputs);
  const auto compare = [&](const comm::Communicator& comm) {
    return matches(FaultyRing(comm, problem, inputs, fault).run(), expected, problem);
  };
  return static_cast<bool>(comm::test::on_every_rank({.ranks = ranks, .deadline = 20}, compare));
}

TEST(FaultyRingTest, WithoutAFaultItPasses) {
  for (const int ranks : {1, 2, 4}) {
    if (!comm::test::enough_processes(ranks)) continue;
    EXPECT_TRUE(passes(Fault::none, ranks, "full"));
    EXPECT_TRUE(passes(Fault::none, ranks, "causal"));
  }
}

TEST(FaultyRingTest, EveryFaultIsFound) {
  for (const Fault fault :
       {Fault::sums_outputs, Fault::row_max_as_lse, Fault::no_scale, Fault::lse_of_the_block,
        Fault::rereads_own_kv, Fault::keeps_own_share}) {
    EXPECT_FALSE(passes(fault, 2, "full")) << static_cast<int>(fault);
    EXPECT_FALSE(passes(fault, 4, "causal")) << static_cast<int>(fault);
  }
  EXPECT_FALSE(passes(Fault::no_mask, 1, "causal"));
}

// Why two ranks are not enough to test with.
TEST(FaultyRingTest, SendingTheOwnBlockShowsFromThreeRanksOn) {
  EXPECT_TRUE(passes(Fault::sends_own_block, 2, "full"));
  EXPECT_FALSE(passes(Fault::sends_own_block, 3, "full"));
  EXPECT_FALSE(passes(Fault::sends_own_block, 4, "full"));
}

}  // namespace
}  // namespace ringspan::attention
