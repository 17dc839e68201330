// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/training_run.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include "bench/training/layer_pass.hpp"
#include "bench/training/matrix_product.hpp"
#include "bench/validate/tables/attention_operator.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Whose GPUs multiply at that speed.
comm::Cluster cluster_for(const TrainingRun& run, double speed, Simulator& simulator) {
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

void require_legal(const TrainingRun& run, const comm::Cluster& cluster) {
  const std::vector<std::string> broken = broken_rules(run.model, cluster, run.config);
  RINGSPAN_REQUIRE(broken.empty(), broken.front());
}

TrainingStep predict_at(double speed, const TrainingRun& run, Simulator& simulator) {
  const comm::Cluster cluster = cluster_for(run, speed, simulator);
  require_legal(run, cluster);
  return training_step(run.model, cluster, run.config, attention(run, cluster, speed, simulator));
}

}  // namespace

TrainingRun training_anchor() {
  TrainingRun run;
  run.model = model("llama3-8b");
  run.cluster = "h100";
  run.config.sequence_length = 500'000;
  run.config.recompute = Recompute::full;
  run.config.tiled_logits = true;
  return run;
}

double training_speed(Simulator& simulator) {
  const TrainingRun run = training_anchor();
  const double published = step_flops(run.model, run.config, kAlstFlops) / (kAnchorTflops * 1e12);
  constexpr double kClose = 1e-6;
  constexpr int kMostSteps = 20;
  double speed = 1;
  for (int step = 0; step < kMostSteps; ++step) {
    const StepSeconds now = predict_at(speed, run, simulator).seconds;
    if (std::abs(now.total() / published - 1) < kClose) return speed;
    const double kernels = now.products + now.attention + now.recompute;
    speed *= kernels / (published - (now.total() - kernels));
  }
  RINGSPAN_REQUIRE(false, "ALST: no speed of kernels meets its step on one GPU");
  return 0;
}

TrainingStep predict(const TrainingRun& run, Simulator& simulator) {
  return predict_at(training_speed(simulator), run, simulator);
}

LayerSeconds predict_layer(const TrainingRun& run, Simulator& simulator) {
  const double speed = training_speed(simulator);
  const comm::Cluster cluster = cluster_for(run, speed, simulator);
  require_legal(run, cluster);
  const AttentionCost cost = attention(run, cluster, speed, simulator);
  const LayerPass forward = layer_forward(run.model, cluster, run.config);
  const LayerPass backward = layer_backward(run.model, cluster, run.config);
  LayerSeconds seconds;
  seconds.forward = forward.computing() + forward.messages.seconds + cost.forward.seconds;
  seconds.backward = backward.computing() + backward.messages.seconds + cost.backward.seconds;
  if (run.config.recompute == Recompute::full) seconds.backward += seconds.forward;
  if (run.config.recomputes_scores()) seconds.backward += cost.forward.seconds;
  return seconds;
}

std::vector<Constant> training_constants(const std::string& cluster, Mark speed) {
  std::vector<Constant> constants = constants_of(cluster);
  constants.push_back({"products of matrices", "their best published rate, by whole blocks",
                       Mark::prediction, "matrix_product.cpp: MAMF, one GPU"});
  constants.push_back(
      {"kernels in a training step", "times as fast as alone", speed,
       concat("ALST's step on one H100",
              speed == Mark::fit
                  ? "; that A100 slow down as much was assumed with tables of A100 and A800 in view"
                  : ""),
       training_speed});
  constants.push_back(
      {"all else", "bytes of fused kernels, counted", Mark::prediction, "layer_pass.cpp"});
  return constants;
}

double utilisation(const TrainingRun& run, Simulator& simulator,
                   const FlopsConvention& convention) {
  const double seconds = predict(run, simulator).seconds.total();
  return flops_per_second(run.model, run.config, convention, seconds) /
         simulator.cluster(run.cluster).gpu.flops_per_second;
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
