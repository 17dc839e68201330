// SPDX-License-Identifier: Apache-2.0
// What is particular to dist_flash: its traffic as the paper counts it, its memory, and backward
// passes without a second forward pass.
#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace dist_flash_test {

comm::World one_node(int ranks) { return {comm::even_places(ranks, 0)}; }

std::int64_t sum_of_bytes(const std::vector<Traffic>& of_ranks) {
  std::int64_t bytes = 0;
  for (const Traffic& traffic : of_ranks) bytes += traffic.bytes;
  return bytes;
}

// P ranks, P odd: of P (P - 1) / 2 pairs of different blocks, those at most P/2 apart are computed
// with the queries, and (P^2 - 1) / 8 with the keys.
TEST(DistFlashTrafficTest, IsThatOfTheBalancedSchedule) {
  for (const std::int64_t p : {3, 5, 7, 9}) {
    const int ranks = static_cast<int>(p);
    const Shape shape{.batch = 2, .heads = 8, .kv_heads = 4, .head_dim = 3, .value_dim = 5};
    const Problem problem = make_problem("causal", 6 * p, shape);
    const std::int64_t tokens = 2 * 6, helped = (p * p - 1) / 8;
    const std::int64_t owned = p * (p - 1) / 2 - helped, kv = tokens * 4 * 8 * 4;
    const std::int64_t rows = tokens * 8 * 4;
    EXPECT_EQ(sum_of_bytes(forward_traffic("dist_flash", {}, problem, one_node(ranks))),
              owned * kv + helped * rows * (3 + 5 + 2));
    EXPECT_EQ(sum_of_bytes(backward_traffic("dist_flash", {}, problem, one_node(ranks))),
              2 * owned * kv + helped * rows * (3 + 5 + 2 + 3));
  }
}

// The paper counts N d elements per rank forward (multi-head attention of width d on N tokens, in
// 16 bits), and 2 N d backward, where gradients are sent in fp32 here.
TEST(DistFlashTrafficTest, IsWhatThePaperSays) {
  const std::int64_t n = 1 << 18;
  const Problem problem = make_problem(
      "causal", n,
      {.heads = 32, .kv_heads = 32, .head_dim = 128, .value_dim = 128, .dtype = DType::bf16});
  const std::int64_t elements = n * 32 * 128, element = 2;
  for (const int ranks : {8, 16}) {
    const auto of_paper = [&](const std::vector<Traffic>& of_ranks) {
      return static_cast<double>(sum_of_bytes(of_ranks)) /
             static_cast<double>(elements * ranks * element);
    };
    EXPECT_NEAR(of_paper(forward_traffic("dist_flash", {}, problem, one_node(ranks))), 1, 0.08);
    EXPECT_NEAR(of_paper(backward_traffic("dist_flash", {}, problem, one_node(ranks))), 2.5, 0.1);
  }
}

/// Counts what a plan computes.
class CountingKernels final : public Kernels {
 public:
  explicit CountingKernels(std::unique_ptr<Kernels> inner) : inner_(std::move(inner)) {}
  int forwards = 0;

  void prepare(const Shape& shape) override { inner_->prepare(shape); }
  std::int64_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  void forward(const ForwardBlock& block, const Partial& partial) override {
    ++forwards;
    inner_->forward(block, partial);
  }
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    inner_->backward(block, dq, dk, dv);
  }
  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    inner_->delta(out, d_out, lse, sinks, delta, d_sinks);
  }
  void merge(const Partial& into, const Partial& from) override { inner_->merge(into, from); }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    inner_->finalize(partial, sinks, out, lse);
  }
  void copy(const ConstTensorView& from, const TensorView& to) override { inner_->copy(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    inner_->accumulate(from, to);
  }
  void fill(const TensorView& to, double value) override { inner_->fill(to, value); }

 private:
  std::unique_ptr<Kernels> inner_;
};

// A layer that is recomputed makes q, k and v anew, in other memory, and keeps out and the Saved:
// attention, with all that it sends, runs forward once.
TEST(RematerialisationTest, ABackwardPassNeedsNoSecondForwardPass) {
  const Problem problem = make_problem("window:30", 45, {.batch = 2, .heads = 4, .kv_heads = 2});
  const OracleInputs inputs = random_inputs(problem, 1);
  const OracleResults expected = oracle(problem, inputs);
  for (const NamedSchedule& named : every_schedule(4, problem.mask)) {
    if (named.name == "ring_self_attention") continue;  // its kernels are others
    SCOPED_TRACE(describe(named));
    const auto body = [&](const comm::Communicator& comm) {
      CountingKernels kernels(make_kernels("cpu", comm.device()));
      const auto schedule = make_schedule(named.name, comm, kernels, named.options);
      const Shard shard = schedule->shard(problem.sequence);
      const auto plan = schedule->plan(problem);
      const auto saved = plan->make_saved();
      RankTensors kept(comm.device(), problem, shard, inputs);
      plan->forward(kept.inputs(), kept.outputs(), saved.get());
      for (const Tensor* input : {&kept.q, &kept.k, &kept.v}) kernels.fill(*input, 1e30);

      const RankTensors again(comm.device(), problem, shard, inputs);
      const std::int64_t forwards = std::exchange(kernels.forwards, 0);
      plan->backward(again.inputs(), kept.outputs(), *saved, again.d_out, kept.gradients());
      if (kernels.forwards != 0 || (forwards == 0 && !kept.tokens.empty())) {
        return testing::AssertionFailure() << forwards << " blocks forward, then in the backward "
                                           << "pass " << kernels.forwards;
      }
      return matches(kept, expected, problem);
    };
    EXPECT_TRUE(comm::test::on_every_rank({.ranks = 4, .deadline = 20}, body));
  }
}

}  // namespace dist_flash_test
}  // namespace ringspan::attention
