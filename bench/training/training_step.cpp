// SPDX-License-Identifier: Apache-2.0
#include "bench/training/training_step.hpp"

#include <algorithm>

#include "bench/training/collective_seconds.hpp"
#include "bench/training/layer_pass.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Adam in one kernel: gradient, master weight and moments in, the last three and a 16-bit weight
/// out; the gradient once more for its norm.
constexpr double kOptimizerBytes = 4 * 4 + 3 * 4 + 2 + 4;

void add(const CollectiveCost& cost, double times, StepBytes& bytes) {
  bytes.in_node += times * cost.bytes_in_node;
  bytes.between_nodes += times * cost.bytes_between_nodes;
}

void add(const AttentionPass& pass, double times, StepBytes& bytes) {
  bytes.in_node += times * static_cast<double>(pass.bytes - pass.inter_node_bytes);
  bytes.between_nodes += times * static_cast<double>(pass.inter_node_bytes);
}

/// The step of one GPU of the slowest pipeline stage.
class Step {
 public:
  Step(const Model& model, const comm::Cluster& cluster, const TrainingConfig& config,
       const AttentionCost& attention)
      : model_(model),
        cluster_(cluster),
        config_(config),
        attention_(attention),
        forward_(layer_forward(model, cluster, config)),
        backward_(layer_backward(model, cluster, config)),
        logits_(logits_pass(model, cluster, config)),
        micro_batches_(static_cast<double>(config.micro_batches())) {}

  TrainingStep predict() {
    add_layers();
    add_pipeline();
    add_data_parallel();
    add_optimizer();
    step_.memory =
        training_memory(model_, config_, static_cast<double>(attention_.workspace_bytes));
    step_.tokens_per_second =
        static_cast<double>(config_.global_batch * config_.sequence_length) / step_.seconds.total();
    return step_;
  }

 private:
  /// All micro-batches of a stage.
  void add_layers() {
    const auto most = static_cast<double>(most_layers(model_, config_));
    const auto fewest = static_cast<double>(model_.layers / config_.pipeline);
    const StepSeconds with_most = stage_seconds(most, false);
    const StepSeconds with_logits = stage_seconds(fewest, true);
    const bool last = with_logits.total() > with_most.total();
    const double layers = micro_batches_ * (last ? fewest : most);
    step_.seconds = last ? with_logits : with_most;

    const double forwards = config_.recompute == Recompute::full ? 2 : 1;
    add(forward_.messages, layers * forwards, step_.bytes);
    add(backward_.messages, layers, step_.bytes);
    add(attention_.forward, layers * forwards, step_.bytes);
    add(attention_.backward, layers, step_.bytes);
    if (last) add(logits_.messages, micro_batches_, step_.bytes);
  }

  StepSeconds stage_seconds(double layers, bool logits) const {
    const AttentionPass &forward = attention_.forward, &backward = attention_.backward;
    StepSeconds layer;
    layer.products = forward_.products + backward_.products;
    layer.elementwise = forward_.elementwise + backward_.elementwise;
    layer.attention =
        forward.seconds - forward.exposed_seconds + backward.seconds - backward.exposed_seconds;
    layer.attention_messages = forward.exposed_seconds + backward.exposed_seconds;
    layer.tensor_messages = forward_.messages.seconds + backward_.messages.seconds;
    if (config_.recompute == Recompute::full) {
      layer.recompute = forward_.computing() + forward.seconds - forward.exposed_seconds;
      layer.attention_messages += forward.exposed_seconds;
      layer.tensor_messages += forward_.messages.seconds;
    }
    if (config_.recomputes_scores()) layer.recompute = forward.seconds;
    const double times = layers * micro_batches_, ends = logits ? micro_batches_ : 0;
    StepSeconds stage;
    stage.products = times * layer.products + ends * logits_.products;
    stage.elementwise = times * layer.elementwise + ends * logits_.elementwise;
    stage.attention = times * layer.attention;
    stage.recompute = times * layer.recompute;
    stage.attention_messages = times * layer.attention_messages;
    stage.tensor_messages = times * layer.tensor_messages + ends * logits_.messages.seconds;
    return stage;
  }

  /// 1F1B: before the last stage has work all others do theirs once, of which chunks need a part
  /// only. Each chunk hands its activations on, and gets gradients back, while it waits.
  void add_pipeline() {
    if (config_.pipeline == 1) return;
    const double slowest = step_.seconds.total() / micro_batches_;
    const double all =
        (stage_seconds(static_cast<double>(model_.layers), true).total()) / micro_batches_;
    step_.seconds.pipeline_bubble = (all - slowest) / config_.pipeline_interleave;

    const RankGroup group{config_.pipeline, config_.replicas() * config_.tensor};
    const double bytes =
        2.0 * static_cast<double>(config_.tokens() * model_.hidden) / config_.tensor;
    const CollectiveCost message = message_cost(cluster_, group, bytes);
    const double messages = 2 * micro_batches_ * config_.pipeline_interleave;
    step_.seconds.pipeline_messages = messages * message.seconds;
    add(message, messages, step_.bytes);
  }

  /// What one pass over a stage computes, for messages to hide behind.
  double forward_window() const {
    return stage_layers() * (forward_.computing() + attention_.forward.seconds);
  }
  double backward_window() const {
    const double again = config_.recompute == Recompute::full ? forward_window() : 0;
    return stage_layers() * (backward_.computing() + attention_.backward.seconds) + again;
  }
  double stage_layers() const { return static_cast<double>(most_layers(model_, config_)); }

  /// Parameters of one GPU before any are sharded; the ends of a pipeline have most.
  double held_parameters() const {
    const double embeddings = config_.pipeline == 1 && !model_.tied ? 2 : 1;
    return (stage_layers() * static_cast<double>(layer_parameters(model_)) +
            embeddings * static_cast<double>(model_.vocabulary * model_.hidden)) /
           config_.tensor;
  }

  /// Gradients are reduced beside the backward pass, of the last micro-batch only where each rank
  /// keeps all of them; parameters are gathered beside the forward pass, and with ZeRO-3 beside
  /// every pass.
  void add_data_parallel() {
    const RankGroup group{config_.replicas(), config_.tensor};
    const int zero = config_.zero_stage;
    const double held = held_parameters();
    const CollectiveCost gradients =
        gather_cost(cluster_, group, held * static_cast<double>(config_.gradient_bytes));
    const CollectiveCost parameters = gather_cost(cluster_, group, held * 2);
    if (zero == 0) {
      hide({{&gradients, 2}}, backward_window(), 1);
      return;
    }
    const double every = zero == 3 ? micro_batches_ : 1;
    hide({{&parameters, 1}}, forward_window(), every);
    if (zero == 3) {
      hide({{&gradients, 1}, {&parameters, 1}}, backward_window(), micro_batches_);
    } else {
      hide({{&gradients, 1}}, backward_window(), zero == 2 ? micro_batches_ : 1);
    }
  }

  struct Times {
    const CollectiveCost* cost;
    double times;
  };
  void hide(std::initializer_list<Times> moved, double window, double passes) {
    double moving = 0, slowdown = 1;
    for (const Times& item : moved) {
      slowdown = std::max(slowdown, item.cost->kernel_slowdown);
      moving += item.times * item.cost->seconds;
      add(*item.cost, item.times * passes, step_.bytes);
    }
    const double exposed = config_.overlap_data_parallel
                               ? overlapped_seconds(window, moving, slowdown) - window
                               : moving;
    step_.seconds.data_messages += passes * exposed;
  }

  void add_optimizer() {
    const double shards = config_.zero_stage > 0 ? static_cast<double>(config_.replicas()) : 1;
    step_.seconds.optimizer =
        held_parameters() / shards * kOptimizerBytes / cluster_.gpu.memory_bytes_per_second;
  }

  const Model& model_;
  const comm::Cluster& cluster_;
  const TrainingConfig& config_;
  const AttentionCost& attention_;
  LayerPass forward_, backward_, logits_;
  double micro_batches_;
  TrainingStep step_;
};

}  // namespace

TrainingStep training_step(const Model& model, const comm::Cluster& cluster,
                           const TrainingConfig& config, const AttentionCost& attention) {
  const std::vector<std::string> broken = broken_rules(model, cluster, config);
  RINGSPAN_REQUIRE(broken.empty(), broken.front());
  return Step(model, cluster, config, attention).predict();
}

}  // namespace ringspan::bench
