// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/training_run.hpp"

#include <charconv>

#include "bench/training/layer_pass.hpp"
#include "bench/training/matrix_product.hpp"
#include "bench/validate/tables/attention_operator.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Whose GPUs multiply at that speed.
comm::Cluster cluster_for(const TrainingRun& run, double speed, const Simulator& simulator) {
  comm::Cluster cluster = simulator.cluster(run.cluster);
  const std::int64_t gpus = run.config.gpus(), in_node = cluster.gpus_per_node;
  cluster.nodes = static_cast<int>((gpus + in_node - 1) / in_node);
  cluster.gpu.flops_per_second *= speed;
  return cluster;
}

AttentionCost attention(const TrainingRun& run, const comm::Cluster& cluster, double speed,
                        Simulator& simulator) {
  if (run.config.attention == AttentionKind::materialised) {
    return materialised_attention(run.model, cluster.gpu, run.config);
  }
  const auto measure = [&](const std::string& pass) -> const Measurement& {
    return simulator.measure(
        attention_point(run.model, cluster, run.config, run.schedule, run.kernel, pass), speed);
  };
  return {attention_pass(measure("forward")), attention_pass(measure("backward"))};
}

TrainingStep predict_at(double speed, const TrainingRun& run, Simulator& simulator) {
  const comm::Cluster cluster = cluster_for(run, speed, simulator);
  return training_step(run.model, cluster, run.config, attention(run, cluster, speed, simulator));
}

}  // namespace

TrainingRun training_anchor() {
  TrainingRun run;
  run.model = model("llama3-8b");
  run.cluster = "h100";
  run.config.sequence_length = 500 << 10;
  run.config.recompute = Recompute::full;
  run.config.tiled_logits = true;
  return run;
}

double training_speed(Simulator& simulator) {
  const TrainingRun run = training_anchor();
  const StepSeconds alone = predict_at(1, run, simulator).seconds;
  const double published = step_flops(run.model, run.config, kAlstFlops) / (kAnchorTflops * 1e12);
  const double kernels = alone.products + alone.attention + alone.recompute;
  return kernels / (published - alone.elementwise - alone.optimizer);
}

TrainingStep predict(const TrainingRun& run, Simulator& simulator) {
  return predict_at(training_speed(simulator), run, simulator);
}

LayerSeconds predict_layer(const TrainingRun& run, Simulator& simulator) {
  const double speed = training_speed(simulator);
  const comm::Cluster cluster = cluster_for(run, speed, simulator);
  const AttentionCost cost = attention(run, cluster, speed, simulator);
  const LayerPass forward = layer_forward(run.model, cluster, run.config);
  const LayerPass backward = layer_backward(run.model, cluster, run.config);
  LayerSeconds seconds;
  seconds.forward = forward.computing() + forward.messages.seconds + cost.forward.seconds;
  seconds.backward = backward.computing() + backward.messages.seconds + cost.backward.seconds;
  if (run.config.recompute == Recompute::full) seconds.backward += seconds.forward;
  if (run.config.recompute == Recompute::selective) seconds.backward += cost.forward.seconds;
  return seconds;
}

std::vector<Constant> training_constants(const std::string& cluster) {
  std::vector<Constant> constants = constants_of(cluster);
  constants.push_back({"products of matrices", "their best published rate, by whole blocks",
                       Mark::prediction, "matrix_product.cpp: MAMF, one GPU"});
  constants.push_back(
      {"kernels in a training step", "as fast as ALST's step on one H100 says", Mark::fit,
       "one GPU, another table; that A100 slow down as much was assumed with tables "
       "of A100 and A800 in view"});
  constants.push_back(
      {"all else", "bytes of fused kernels, counted", Mark::prediction, "layer_pass.cpp"});
  return constants;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

int degree(const PublishedRow& row, std::string_view key) {
  return static_cast<int>(row.number_behind("config", key).value_or(1));
}

double ratio(const PublishedRow& row, std::string_view column) {
  const std::string& text = row[column];
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  RINGSPAN_REQUIRE(error == std::errc() && (unit.empty() || unit == "%" || unit == "x"),
                   row.place(), ": ", column, " is '", text, "'; it must be such as 41.5% or 1.3x");
  return unit == "%" ? value / 100 : value;
}

}  // namespace ringspan::bench
