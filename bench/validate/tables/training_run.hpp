// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/training/step_flops.hpp"
#include "bench/training/training_step.hpp"
#include "bench/validate/table.hpp"

namespace ringspan::bench {

/// A training step that a paper timed.
struct TrainingRun {
  Model model;
  std::string cluster;  // nodes as many as it takes
  TrainingConfig config;
  std::string schedule = "usp", kernel = "modelled:fa2";
};

/// Its attention in virtual time, the rest in closed form; kernels at training_speed().
TrainingStep predict(const TrainingRun& run, Simulator& simulator);

/// How fast kernels are in the midst of a long step, relative to what is published of them alone:
/// so that ALST's step on one H100 (table 2, 500,000 tokens, which is almost all attention) has the
/// published TFLOPS. Taken for every GPU, as no such step is published of another.
double training_speed(Simulator& simulator);
inline constexpr double kAnchorTflops = 548.1;
TrainingRun training_anchor();

/// ALST counts all pairs and the layers of a GPT, without logits, recompute included: that gives
/// back its TFLOPS from its times.
inline constexpr FlopsConvention kAlstFlops = {"ALST", 1, false, true, true};

/// Of one micro-batch in one layer, what is computed again in the backward pass.
struct LayerSeconds {
  double forward = 0, backward = 0;
};
LayerSeconds predict_layer(const TrainingRun& run, Simulator& simulator);

/// What such predictions rest on, on a cluster. `speed`: what a table owes to training_speed().
std::vector<Constant> training_constants(const std::string& cluster, Mark speed);

/// Of the cluster's peak.
double utilisation(const TrainingRun& run, Simulator& simulator,
                   const FlopsConvention& convention = kModelFlops);

/// "41.5%" as 0.415, "2.88x" as 2.88. Throws invalid_argument, naming place and column.
double ratio(const PublishedRow& row, std::string_view column);

}  // namespace ringspan::bench
