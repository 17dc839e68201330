// SPDX-License-Identifier: Apache-2.0
// What tiles save, as the device counts it, and what recomputing costs. (What a block keeps to the
// byte: kept_by_block_test.)
#include "model/memory_options.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace memory_options_test {

using attention::DType;

/// Counts forward passes of what it wraps.
class CountingPlan final : public attention::Plan {
 public:
  CountingPlan(std::unique_ptr<attention::Plan> plan, int& forwards)
      : plan_(std::move(plan)), forwards_(forwards) {}

  std::unique_ptr<attention::Saved> make_saved() override { return plan_->make_saved(); }
  void forward(const attention::Inputs& inputs, const attention::Outputs& outputs,
               attention::Saved* saved) override {
    ++forwards_;
    plan_->forward(inputs, outputs, saved);
  }
  void backward(const attention::Inputs& inputs, const attention::Outputs& outputs,
                const attention::Saved& saved, const attention::ConstTensorView& d_out,
                const attention::Gradients& gradients) override {
    plan_->backward(inputs, outputs, saved, d_out, gradients);
  }

 private:
  std::unique_ptr<attention::Plan> plan_;
  int& forwards_;
};

class CountingSchedule final : public attention::Schedule {
 public:
  explicit CountingSchedule(attention::Schedule& schedule) : schedule_(schedule) {}

  attention::Shard shard(const attention::Sequence& sequence) const override {
    return schedule_.shard(sequence);
  }
  void require_possible(const attention::Problem& problem) const override {
    schedule_.require_possible(problem);
  }
  std::unique_ptr<attention::Plan> plan(const attention::Problem& problem) override {
    return std::make_unique<CountingPlan>(schedule_.plan(problem), forwards);
  }

  int forwards = 0;

 private:
  attention::Schedule& schedule_;
};

constexpr std::int64_t kTokens = 256, kLayers = 2, kVocabulary = 700;
constexpr std::int64_t kHidden = 24, kMlp = 96;

struct Cost {
  std::int64_t bytes = 0;  // the most at once, beyond what was there before the pass
  int forwards = 0;        // of attention
};

/// Of one pass forward and backward of a model whose MLP and vocabulary are wide.
Cost cost(const MemoryOptions& memory, std::int64_t hidden = kHidden) {
  Cost cost;
  comm::test::launch({}, [&](const comm::Communicator& world) {
    ModelConfig config = tiny(Variant::llama, DType::f32);
    config.layers = kLayers;
    config.hidden = hidden;
    config.mlp_hidden = kMlp;
    config.vocabulary = kVocabulary;
    const Text text({kTokens}, 1, config.vocabulary, 9);
    RankModel rank(world, {config, memory}, text);
    CountingSchedule counting(*rank.schedule);
    Transformer model(config, memory, rank.mesh, counting);
    model.loss_and_gradients(text.sequence, rank.tokens, 0);  // the plan's buffers are there
    comm::Device& device = world.device();
    device.reset_peak();
    const std::int64_t before = device.memory().current;
    counting.forwards = 0;
    model.loss_and_gradients(text.sequence, rank.tokens, 0);
    EXPECT_EQ(device.memory().current, before) << "a pass leaves something behind";
    cost = {device.memory().peak - before, counting.forwards};
  });
  return cost;
}

TEST(MemoryOptionsTest, TilesBoundWhatIsThereAtOnce) {
  const auto full = [](std::int64_t mlp_tiles, bool blockwise, std::int64_t loss_tiles,
                       std::int64_t hidden) {
    const MemoryOptions memory{Recompute::full, false, mlp_tiles, blockwise, loss_tiles};
    return cost(memory, hidden).bytes;
  };
  // Of up, gate, what they make and the gradients of these, an eighth is left.
  EXPECT_GE(full(1, false, 16, kHidden) - full(8, false, 16, kHidden), kTokens * 3 * kMlp * 4);
  // Logits, what the last norm makes, and its gradient, are for as many tokens as a tile has.
  EXPECT_EQ(full(8, false, 1, kHidden) - full(8, false, 2, kHidden),
            kTokens * (kVocabulary + 2 * kHidden) * 4 / 2);
  // Where residuals are what is wide, y is what blockwise saves, but for a tile of it.
  constexpr std::int64_t kWide = 96;
  EXPECT_EQ(full(8, false, 16, kWide) - full(8, true, 16, kWide), kTokens * kWide * 4 * 7 / 8);
}

TEST(MemoryOptionsTest, OnlyFullRecomputingRunsAttentionAgain) {
  for (const Recompute recompute :
       {Recompute::none, Recompute::selective, Recompute::selective_plus}) {
    EXPECT_EQ(cost({.recompute = recompute}).forwards, kLayers) << name(recompute);
  }
  EXPECT_EQ(cost({.recompute = Recompute::full}).forwards, 2 * kLayers);
}

TEST(MemoryOptionsTest, RefusesNoTiles) {
  EXPECT_THROW(require_valid(MemoryOptions{.mlp_tiles = 0}), Error);
  EXPECT_THROW(require_valid(MemoryOptions{.loss_tiles = 0}), Error);
  EXPECT_THROW(recompute("some"), Error);
}

}  // namespace memory_options_test
}  // namespace ringspan::model::test
