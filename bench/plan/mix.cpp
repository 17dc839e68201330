// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/mix.hpp"

#include <algorithm>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Of a node that runs anything.
std::int64_t gpus_in_node(const PlanOptions& options) {
  return std::min<std::int64_t>(options.ranks, options.cluster.gpus_per_node);
}

class Mixes {
 public:
  explicit Mixes(const PlanOptions& options) : options_(options) {}

  std::vector<Mix> all() && {
    TrainingConfig config;
    config.sequence_length = options_.sequence_length;
    config.global_batch = options_.global_batch;
    for (const int data : divisors(options_.ranks)) {
      if (!data_refusal(options_, data).empty()) continue;
      config.data = data;
      for (const int tensor : divisors(options_.ranks / data)) {
        if (!tensor_refusal(options_, tensor).empty()) continue;
        config.tensor = tensor;
        for (const int ulysses : divisors(options_.ranks / data / tensor)) {
          config.ulysses = ulysses;
          config.ring = static_cast<int>(options_.ranks / data / tensor / ulysses);
          add_micro_batches(config);
        }
      }
    }
    return std::move(mixes_);
  }

 private:
  void add_micro_batches(TrainingConfig config) {
    const std::int64_t here = options_.global_batch / config.data;
    for (config.micro_batch = 1; config.micro_batch <= here; config.micro_batch *= 2) {
      if (here % config.micro_batch == 0 && legal(config)) add_schedules(config);
    }
  }

  bool legal(const TrainingConfig& config) const {
    return config.ulysses <= options_.model.heads / config.tensor &&
           broken_rules(options_.model, options_.cluster, config).empty();
  }

  void add_schedules(TrainingConfig config) {
    const auto add = [&](std::string_view schedule) { mixes_.push_back({config, schedule}); };
    if (config.sequence_parallel() == 1) {
      add("none");
    } else if (config.ring == 1) {
      add("ulysses");
    } else if (config.ulysses == 1) {
      for (const auto schedule : {"zigzag", "striped", "all_gather_kv"}) add(schedule);
    } else {
      add("usp");
      config.ring_inner = true;
      if (!all_equally_near(config)) add("usp");
    }
  }

  /// Then it does not matter which ranks are neighbours.
  bool all_equally_near(const TrainingConfig& config) const {
    return config.tensor * config.sequence_parallel() <= options_.cluster.fabric.gpus_per_switch;
  }

  const PlanOptions& options_;
  std::vector<Mix> mixes_;
};

}  // namespace

std::string text(const Mix& mix) {
  const TrainingConfig& config = mix.config;
  std::string text;
  const auto add = [&text](std::string_view name, int degree) {
    if (degree > 1) text += concat(text.empty() ? "" : " x ", name, " ", degree);
  };
  add("data", config.data);
  add("tensor", config.tensor);
  add("ulysses", config.ulysses);
  add("ring", config.ring);
  if (text.empty()) return "one GPU";
  return mix.whole_sequences()
             ? text
             : concat(text, " (", mix.schedule, config.ring_inner ? ", ring inner" : "", ")");
}

std::string data_refusal(const PlanOptions& options, int data) {
  if (options.global_batch % data != 0) {
    return concat("data ", data, ": a batch of ", options.global_batch, " is no multiple of it");
  }
  const std::int64_t group = options.ranks / data, in_node = gpus_in_node(options);
  if (in_node % group == 0 || group % in_node == 0) return "";
  return concat("data ", data, ": groups of ", group, " GPUs are neither whole nodes of ", in_node,
                " nor an even part of one");
}

std::string tensor_refusal(const PlanOptions& options, int tensor) {
  const std::int64_t node = options.cluster.gpus_per_node;
  if (node % tensor != 0 || gpus_in_node(options) % tensor != 0) {
    return concat("tensor-parallel degree ", tensor, ": it must divide the ", gpus_in_node(options),
                  " GPUs of a node that has ", node);
  }
  TrainingConfig config;
  config.sequence_length = config.global_batch = 1;
  config.tensor = tensor;
  const auto broken = broken_rules(options.model, options.cluster, config);
  return broken.empty() ? "" : broken.front();
}

std::vector<int> divisors(std::int64_t number) {
  std::vector<int> result;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) result.push_back(divisor);
  }
  return result;
}

std::vector<Mix> mixes(const PlanOptions& options) { return Mixes(options).all(); }

}  // namespace ringspan::bench
