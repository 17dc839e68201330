// SPDX-License-Identifier: Apache-2.0
// What the memory options save, as the device counts it, and what they cost.
#include "model/memory_options.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

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

constexpr std::int64_t kTokens = 256, kLayers = 6, kVocabulary = 700;
constexpr std::int64_t kHidden = 24, kHeads = 8 * 6, kKvHeads = 4 * 6, kMlp = 96;
constexpr std::int64_t kLse = 8;

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

// [tokens][features] of each layer but one, which is at work, in fp32.
std::int64_t of_other_layers(std::int64_t features) {
  return (kLayers - 1) * kTokens * features * 4;
}

TEST(MemoryOptionsTest, RecomputingKeepsSoMuchLessPerLayer) {
  if (!comm::test::on_threads()) return;
  const MemoryOptions tiles{.loss_tiles = 16};  // or the peak is the logits'
  const auto with = [&](Recompute recompute, bool offload = false) {
    MemoryOptions memory = tiles;
    memory.recompute = recompute;
    memory.offload = offload;
    return cost(memory).bytes;
  };
  const std::int64_t none = with(Recompute::none), selective = with(Recompute::selective);
  const std::int64_t plus = with(Recompute::selective_plus), full = with(Recompute::full);
  // What the layer at work holds at its peak differs between modes, too, by a few of its matrices.
  const std::int64_t slack = kTokens * (2 * kMlp + 4 * kHidden + 2 * kHeads) * 4;
  EXPECT_NEAR(none - selective, of_other_layers(2 * kMlp), slack);
  EXPECT_NEAR(selective - plus, of_other_layers(kHeads + 2 * kKvHeads + kHidden), slack);
  EXPECT_NEAR(plus - full, of_other_layers(kHeads + kLse), slack);
  EXPECT_NEAR(full - with(Recompute::full, true), of_other_layers(kHidden), slack);
  EXPECT_GT(none, selective);
  EXPECT_GT(selective, plus);
  EXPECT_GT(plus, full);
  EXPECT_GT(full, with(Recompute::full, true));
}

TEST(MemoryOptionsTest, TilesBoundWhatIsThereAtOnce) {
  if (!comm::test::on_threads()) return;
  const auto full = [](std::int64_t mlp_tiles, bool blockwise, std::int64_t loss_tiles,
                       std::int64_t hidden) {
    const MemoryOptions memory{Recompute::full, false, mlp_tiles, blockwise, loss_tiles};
    return cost(memory, hidden).bytes;
  };
  // Of up, gate, what they make and the gradients of these, an eighth is left.
  EXPECT_GE(full(1, false, 16, kHidden) - full(8, false, 16, kHidden), kTokens * 3 * kMlp * 4);
  EXPECT_GE(full(8, false, 1, kHidden) - full(8, false, 16, kHidden),
            kTokens * kVocabulary * 4 / 2);
  // Where residuals are what is wide, y is what blockwise saves, but for a tile of it.
  constexpr std::int64_t kWide = 96;
  EXPECT_EQ(full(8, false, 16, kWide) - full(8, true, 16, kWide), kTokens * kWide * 4 * 7 / 8);
}

TEST(MemoryOptionsTest, OnlyFullRecomputingRunsAttentionAgain) {
  if (!comm::test::on_threads()) return;
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

}  // namespace
}  // namespace ringspan::model::test
