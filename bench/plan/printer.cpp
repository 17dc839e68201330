// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/printer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/commit.hpp"
#include "bench/training/step_flops.hpp"

namespace ringspan::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 10;
constexpr const char* kLine =
    "{:>3}  {:>4} {:>6} {:>7} {:>4}  {:<13}  {:<13}  {:>4}  {:<9}  {:>5}  {:>9}  {:>10}  {:>6}  "
    "{:>7}  {:>8}  {:>7}\n";

double mfu(const PlanOptions& options, const Candidate& candidate) {
  return flops_per_second(options.model, candidate.mix.config, kModelFlops, candidate.seconds()) /
         options.cluster.gpu.flops_per_second;
}

std::string_view recompute(const Candidate& candidate) {
  return candidate.mix.config.recompute == Recompute::full ? "full" : "none";
}

/// Only where there are two kinds of neighbours.
std::string_view placement(const Candidate& candidate) {
  if (candidate.mix.schedule != "usp") return "";
  return candidate.mix.config.ring_inner ? "ring_inner" : "ulysses_inner";
}

std::string line(const PlanOptions& options, std::size_t place, const Candidate& candidate) {
  const TrainingConfig& config = candidate.mix.config;
  const TrainingStep& step = candidate.step;
  return fmt::format(
      kLine, place, config.data, config.tensor, config.ulysses, config.ring, candidate.mix.schedule,
      placement(candidate), config.zero_stage, recompute(candidate), config.micro_batch,
      fmt::format("{:.4g}", candidate.seconds()), fmt::format("{:.0f}", step.tokens_per_second),
      fmt::format("{:.1f} %", 100 * mfu(options, candidate)),
      fmt::format("{:.1f} %", 100 * step.exposed_share()),
      fmt::format("{:.2f}", step.slowest_link_bytes() * 1e-9),
      fmt::format("{:.1f}", candidate.memory() * 1e-9));
}

Json figures(const PlanOptions& options, const Candidate& candidate) {
  const TrainingStep& step = candidate.step;
  return {{"seconds_per_step", candidate.seconds()},
          {"tokens_per_s", step.tokens_per_second},
          {"mfu", mfu(options, candidate)},
          {"exposed_share", step.exposed_share()},
          {"slowest_link_bytes", step.slowest_link_bytes()},
          {"peak_bytes", candidate.memory()}};
}

Json json(const PlanOptions& options, const Candidate& candidate) {
  const TrainingConfig& config = candidate.mix.config;
  return {{"data", config.data},
          {"tensor", config.tensor},
          {"ulysses", config.ulysses},
          {"ring", config.ring},
          {"schedule", candidate.mix.schedule},
          {"placement", placement(candidate)},
          {"zero_stage", config.zero_stage},
          {"recompute", recompute(candidate)},
          {"micro_batch", config.micro_batch},
          {"fits", candidate.fits},
          {"bound_seconds", candidate.simulated ? candidate.bound_seconds : candidate.seconds()},
          {candidate.simulated ? "predicted" : "at_least", figures(options, candidate)}};
}

}  // namespace

std::string table(const PlanOptions& options, const SearchResult& result, const Reasons& reasons) {
  const Model& model = options.model;
  std::string text = fmt::format(
      "Predicted, nothing of this is measured: {} on {} GPU{} of the described cluster '{}',\n"
      "{} x {} tokens a step, at most {:.1f} GB of a GPU. MFU counts the model's causal FLOPs.\n"
      "Mixes considered, none with a pipeline: {}; attention simulated for {}.\n\n",
      model.name, options.ranks, options.ranks == 1 ? "" : "s", options.cluster.name,
      options.global_batch, options.sequence_length, options.memory_limit * 1e-9, result.considered,
      result.simulations);
  text += fmt::format(kLine, "", "data", "tensor", "ulysses", "ring", "schedule", "placement",
                      "ZeRO", "recompute", "micro", "s/step", "tokens/s", "MFU", "exposed",
                      "link GB", "peak GB");
  std::size_t place = 0;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.fits || !candidate.simulated || place == kMostRows) break;
    text += line(options, ++place, candidate);
  }
  if (!result.found()) {
    text += result.candidates.front().fits ? "     nothing that was simulated fits\n"
                                           : "     nothing fits\n";
  }
  text += "\n";
  for (const std::string& reason : reasons.best) text += fmt::format("{}\n", reason);
  if (!reasons.ruled_out.empty()) text += "\nNot the best:\n";
  for (const RuledOut& other : reasons.ruled_out) {
    text += fmt::format("- {}: {}\n", other.what, other.why);
  }
  return text;
}

std::string json(const PlanOptions& options, const SearchResult& result, const Reasons& reasons) {
  Json all = {{"commit", kCommit},
              {"world", "simulated"},
              {"model", options.model.name},
              {"cluster", options.cluster.name},
              {"ranks", options.ranks},
              {"sequence_length", options.sequence_length},
              {"global_batch", options.global_batch},
              {"memory_limit", options.memory_limit},
              {"mfu_counts", kModelFlops.name},
              {"considered", result.considered},
              {"simulated", result.simulations},
              {"why", reasons.best}};
  all["not_the_best"] = Json::array();
  for (const RuledOut& other : reasons.ruled_out) {
    all["not_the_best"].push_back({{"what", other.what}, {"why", other.why}});
  }
  all["candidates"] = Json::array();
  for (const Candidate& candidate : result.candidates) {
    all["candidates"].push_back(json(options, candidate));
  }
  return all.dump(2) + "\n";
}

}  // namespace ringspan::bench
