// SPDX-License-Identifier: Apache-2.0
// What is particular to ring_self_attention: its traffic as the paper counts it, and its memory;
// and what any Saved promises.
#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace ring_self_attention_test {

// The paper, for B sequences of L tokens, Z heads of A on N ranks: 2 (N - 1) B Z (L / N) A elements
// forward, 6 of these backward.
TEST(RingSelfAttentionTest, SendsWhatThePaperSays) {
  for (const std::int64_t n : {2, 3, 5, 8}) {
    const std::int64_t b = 2, z = 3, a = 4, l = 7 * n, element = 4;
    const Problem problem = make_problem(
        "full", l, {.batch = b, .heads = z, .kv_heads = z, .head_dim = a, .value_dim = a});
    const comm::World world{comm::even_places(static_cast<int>(n), 0)};
    std::int64_t forward = 0, backward = 0;
    for (const Traffic& rank : forward_traffic("ring_self_attention", {}, problem, world)) {
      EXPECT_EQ(rank.messages, 2 * (n - 1));
      forward += rank.bytes;
    }
    for (const Traffic& rank : backward_traffic("ring_self_attention", {}, problem, world)) {
      backward += rank.bytes;
    }
    EXPECT_EQ(forward, n * element * 2 * (n - 1) * b * z * (l / n) * a);
    EXPECT_EQ(backward, n * element * 6 * (n - 1) * b * z * (l / n) * a);
  }
}

struct Memory {
  std::int64_t plan, saved;
};

/// Of the first rank.
Memory memory_of(const Problem& problem, int ranks) {
  Memory memory{};
  comm::launch("threads", {.ranks = ranks, .deadline = 20}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("null", comm.device());
    const auto schedule = make_schedule("ring_self_attention", comm, *kernels);
    const std::int64_t before = comm.device().memory().current;
    const auto plan = schedule->plan(problem);
    const std::int64_t planned = comm.device().memory().current;
    const auto first = plan->make_saved();  // and what the backward pass needs
    const std::int64_t with_one = comm.device().memory().current;
    const auto second = plan->make_saved();
    if (comm.rank() > 0) return;
    memory = {planned - before, comm.device().memory().current - with_one};
  });
  return memory;
}

// B Z L^2 / N scores of four bytes each; the rest is linear in L.
TEST(RingSelfAttentionTest, KeepsScoresOfAllTokensWithTheRanksOwn) {
  const Shape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 3, .value_dim = 5, .dtype = DType::bf16};
  for (const std::int64_t ranks : {2, 4}) {
    for (const std::int64_t length : {32, 64}) {
      const Memory memory =
          memory_of(make_problem("causal", length, shape), static_cast<int>(ranks));
      const std::int64_t rows = 2 * length / ranks, scores = rows * 4 * length * 4;
      EXPECT_EQ(memory.plan, scores + rows * 4 * (5 + 2) * 4 + 2 * rows * 2 * 5 * 2);
      EXPECT_EQ(memory.saved, scores + rows * 4 * 4);  // and lse
    }
  }
}

/// Any kernels, without scores.
class FlashKernels : public Kernels {
 public:
  void prepare(const Shape&) override {}
  std::int64_t workspace_bytes() const override { return 0; }
  void forward(const ForwardBlock&, const Partial&) override {}
  void backward(const BackwardBlock&, const TensorView&, const TensorView&,
                const TensorView&) override {}
  void delta(const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
             const ConstTensorView*, const TensorView&, const TensorView*) override {}
  void merge(const Partial&, const Partial&) override {}
  void finalize(const Partial&, const ConstTensorView*, const TensorView&,
                const TensorView&) override {}
  void copy(const ConstTensorView&, const TensorView&) override {}
  void accumulate(const ConstTensorView&, const TensorView&) override {}
  void fill(const TensorView&, double) override {}
};

std::string refusal(const Problem& problem, Kernels& kernels) {
  std::string message = "nothing was refused";
  comm::launch("threads", {}, [&](const comm::Communicator& comm) {
    try {
      (void)make_schedule("ring_self_attention", comm, kernels)->plan(problem);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      message = error.what();
    }
  });
  return message;
}

TEST(RingSelfAttentionTest, RefusesKernelsWithoutScoresAndLengthsBeyond64Bits) {
  FlashKernels kernels;
  EXPECT_THAT(refusal(make_problem("full", 8, {}), kernels), testing::HasSubstr("keeps scores"));
  EXPECT_THAT(refusal(make_problem("full", 1ll << 31, {}), kernels),
              testing::HasSubstr("more than 64 bits"));
}

/// Kernels that fail when told to.
class FailingKernels final : public FlashKernels {
 public:
  void forward(const ForwardBlock&, const Partial&) override {
    RINGSPAN_REQUIRE(!fails, "told to fail");
  }
  bool fails = false;
};

// What a failed pass leaves in a Saved is of two passes, so a backward pass does not take it.
TEST(PlanSavedTest, IsNotFilledByAPassThatFails) {
  const Problem problem = make_problem("full", 8, {});
  const OracleInputs inputs = random_inputs(problem, 1);
  comm::launch("threads", {}, [&](const comm::Communicator& comm) {
    FailingKernels kernels;
    const auto ring = make_ring(comm, kernels, LayoutKind::contiguous);
    const RankTensors tensors(comm.device(), problem, ring->shard(problem.sequence), inputs);
    const auto plan = ring->plan(problem);
    const auto saved = plan->make_saved();
    const auto forward = [&] { plan->forward(tensors.inputs(), tensors.outputs(), saved.get()); };
    forward();
    kernels.fails = true;
    EXPECT_THROW(forward(), Error);
    try {
      plan->backward(tensors.inputs(), tensors.outputs(), *saved, tensors.d_out,
                     tensors.gradients());
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("saved was not filled"));
    }
  });
}

}  // namespace ring_self_attention_test
}  // namespace ringspan::attention
