// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/problem.hpp"

#include <algorithm>
#include <functional>

#include "model/memory/checkpoints.hpp"
#include "model/memory/layer_activations.hpp"
#include "model/memory/peak_activation.hpp"

namespace ringspan::bench {
namespace {

model::LayerShare layer_share(const MemoryProblem& problem, std::int64_t ranks,
                              model::KeptScores scores) {
  const Model& of = problem.model;
  const std::int64_t tensor = problem.tensor, cuts = ranks / tensor;
  const std::int64_t tokens = problem.batch * ((problem.sequence_length + cuts - 1) / cuts);
  return {.tokens = tokens,
          .residual_tokens = (tokens + tensor - 1) / tensor,
          .keys = problem.sequence_length,
          .hidden = of.hidden,
          .heads = of.heads / tensor,
          .kv_heads = std::max<std::int64_t>(of.kv_heads / tensor, 1),  // copied if fewer
          .head_dim = of.head_dim,
          .mlp_hidden = of.ffn_hidden / tensor,
          .gated = of.gated,
          .scores = scores};
}

}  // namespace

std::vector<MemoryLine> memory_lines(const MemoryProblem& problem) {
  using model::Blocking;
  using model::KeptScores;
  std::vector<MemoryLine> lines;
  const auto add = [&](std::string what, const std::function<double(std::int64_t)>& bytes) {
    lines.push_back({std::move(what), {}});
    for (const std::int64_t ranks : problem.ranks) lines.back().bytes.push_back(bytes(ranks));
  };
  const auto layer = [&](std::int64_t ranks, KeptScores scores = KeptScores::lse) {
    return layer_activation_bytes(layer_share(problem, ranks, scores));
  };
  const auto input = [&](std::int64_t ranks) {
    return layer_input_bytes(layer_share(problem, ranks, KeptScores::lse));
  };
  const auto layers = static_cast<double>(problem.model.layers);

  add("a layer keeps, with flash attention", [&](auto ranks) { return layer(ranks).total(); });
  add("of it, inputs of norms", [&](auto ranks) { return layer(ranks).norms; });
  add("of it, attention", [&](auto ranks) { return layer(ranks).attention; });
  add("of it, lse", [&](auto ranks) { return layer(ranks).scores; });
  add("of it, MLP", [&](auto ranks) { return layer(ranks).mlp; });
  add("a layer keeps, with materialised scores",
      [&](auto ranks) { return layer(ranks, KeptScores::all).total(); });
  add("a layer keeps, with scores recomputed",
      [&](auto ranks) { return layer(ranks, KeptScores::none).total(); });
  add("a layer keeps, recomputed as a whole", input);
  add("all layers, with flash attention",
      [&](auto ranks) { return layers * layer(ranks).total(); });
  add("all layers, checkpoints", [&](auto ranks) { return layers * input(ranks); });

  const auto largest = [&](Blocking blocking, std::int64_t ranks) {
    const std::int64_t block = (problem.sequence_length + ranks - 1) / ranks;
    return peak_activation(blocking, {.batch = problem.batch,
                                      .sequence = problem.sequence_length,
                                      .block = block,
                                      .heads = problem.model.heads,
                                      .hidden = problem.model.hidden})
        .most();
  };
  add("largest activation, one rank, nothing in blocks",
      [&](auto) { return largest(Blocking::none, 1); });
  add("largest activation, one rank, attention in blocks",
      [&](auto) { return largest(Blocking::attention, problem.sequence_length); });
  add("largest activation, one rank, MLP in blocks, too",
      [&](auto) { return largest(Blocking::both, 1); });
  add("largest activation, on a ring of all ranks",
      [&](auto ranks) { return largest(Blocking::ring, ranks); });
  return lines;
}

}  // namespace ringspan::bench
