// SPDX-License-Identifier: Apache-2.0
#include "bench/train/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "bench/commit.hpp"
#include "bench/hosts.hpp"
#include "bench/machine.hpp"
#include "bench/rows/new_csv.hpp"
#include "bench/sweep.hpp"
#include "bench/train/bytes_needed.hpp"
#include "bench/train/training.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

std::string read(const TrainOptions& options) {
  std::error_code ignored;  // what cannot be looked at cannot be read either
  RINGSPAN_REQUIRE(!std::filesystem::is_directory(options.text, ignored), "--text: cannot read ",
                   options.text, ": it is a directory");
  std::ifstream stream(options.text, std::ios::binary);
  RINGSPAN_REQUIRE(stream, "--text: cannot read ", options.text);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  RINGSPAN_REQUIRE(std::ssize(text) >= options.length, "--text: ", options.text, " has ",
                   text.size(), " bytes; a sample of --seq takes ", options.length);
  return text;
}

/// The same on one rank.
TrainOptions alone(TrainOptions options) {
  options.mesh = {};
  options.schedule = "ring";
  options.inner_ring = options.head_groups = 0;
  options.backward = attention::BackwardForm::kv;
  options.hop = comm::Hop::copy;
  return options;
}

double tokens_per_second(const TrainOptions& options, const TrainedStep& step) {
  return static_cast<double>(options.length * options.batch) / step.seconds;
}

/// Prints steps as they end.
class Printer {
 public:
  explicit Printer(const TrainOptions& options) : options_(options) {}

  void begin() const {
    fmt::print("{:>5} {:>10} {:>10} {:>16} {:>15}\n", "step", "loss", "tokens/s", "activations MiB",
               "parameters MiB");
  }

  void print(const TrainedStep& step) const {
    constexpr double kMiB = 1 << 20;
    fmt::print("{:>5} {:>10.6f} {:>10.0f} {:>16.2f} {:>15.2f}\n", step.step, step.loss,
               tokens_per_second(options_, step), static_cast<double>(step.activation_bytes) / kMiB,
               static_cast<double>(step.parameter_bytes) / kMiB);
    std::fflush(stdout);
  }

  /// False if a loss is no finite number: then nothing was learned from there on.
  bool finite(const std::vector<TrainedStep>& steps) const {
    for (const TrainedStep& step : steps) {
      if (std::isfinite(step.loss)) continue;
      fmt::print("the loss of step {} is no finite number\n", step.step);
      return false;
    }
    return true;
  }

  /// Against the same steps on one rank; false if they are nothing to compare.
  bool compare(const std::vector<TrainedStep>& many, const std::vector<TrainedStep>& one) const {
    fmt::print("\n{:>5} {:>14} {:>14} {:>12}\n", "step", fmt::format("{} ranks", options_.ranks()),
               "one rank", "difference");
    double largest = 0;
    for (std::size_t i = 0; i < many.size(); ++i) {
      const double difference = many[i].loss - one[i].loss;
      const double share = difference == 0 ? 0 : std::abs(difference) / one[i].loss;
      if (std::isnan(share) || share > largest) largest = share;  // one that is no number stays
      fmt::print("{:>5} {:>14.9f} {:>14.9f} {:>12.2e}\n", many[i].step, many[i].loss, one[i].loss,
                 difference);
    }
    fmt::print("largest difference: {:.2e} of the loss\n", largest);
    const bool same_bits = compare_bits(many.front().attention, one.front().attention);
    if (std::isfinite(largest)) return same_bits;
    fmt::print("there are losses that are no finite numbers, which cannot be compared\n");
    return false;
  }

 private:
  /// What attention gave in the first step, whose weights are still the same; false if bits differ
  /// that may not. Tensor parallelism adds up in another order what later layers are given.
  bool compare_bits(const std::vector<AttentionBits>& many,
                    const std::vector<AttentionBits>& one) const {
    if (one.empty()) return true;
    std::size_t same = 0;
    for (std::size_t i = 0; i < std::min(many.size(), one.size()); ++i) same += many[i] == one[i];
    fmt::print("attention of step 1: {} of {} outputs and gradients have the bits of one rank\n",
               same, one.size());
    return options_.mesh.tensor > 1 || (same == one.size() && same == many.size());
  }

  const TrainOptions& options_;
};

NewCsv::Fields header() {
  return {"machine",
          "commit",
          "variant",
          "dtype",
          "transport",
          "mesh",
          "ranks",
          "schedule",
          "inner_ring",
          "head_groups",
          "placement",
          "backward",
          "kernel",
          "recompute",
          "offload",
          "mlp_tiles",
          "blockwise",
          "loss_tiles",
          "sequence_length",
          "batch",
          "layers",
          "hidden",
          "heads",
          "kv_heads",
          "learning_rate",
          "seed",
          "step",
          "loss",
          "loss_on_one_rank",
          "seconds",
          "tokens_per_s",
          "activation_bytes_per_rank",
          "parameter_bytes_per_rank",
          "bytes_sent_per_rank"};
}

/// `one` is the same step on one rank, or null.
NewCsv::Fields fields(const TrainOptions& options, const TrainedStep& step,
                      const TrainedStep* one) {
  const model::MemoryOptions& memory = options.memory;
  const model::ModelConfig& config = options.config;
  const attention::ScheduleEntry& schedule = attention::schedule_entry(options.schedule);
  return {this_machine().name(),
          kCommit,
          std::string(name(config.variant)),
          std::string(name(config.dtype)),
          options.transport,
          name(options.mesh),
          std::to_string(options.ranks()),
          options.schedule,
          options.inner_ring ? std::to_string(options.inner_ring) : "",
          options.head_groups ? std::to_string(options.head_groups) : "",
          schedule.takes_ulysses_degree ? std::string(name(options.mesh.placement)) : "",
          schedule.takes_backward ? std::string(name(options.backward)) : "",
          options.kernel,
          std::string(name(memory.recompute)),
          std::to_string(memory.offload),
          std::to_string(memory.mlp_tiles),
          std::to_string(memory.blockwise),
          std::to_string(memory.loss_tiles),
          std::to_string(options.length),
          std::to_string(options.batch),
          std::to_string(config.layers),
          std::to_string(config.hidden),
          std::to_string(config.heads),
          std::to_string(config.kv_heads),
          fmt::format("{}", options.optimizer.learning_rate),
          std::to_string(config.seed),
          std::to_string(step.step),
          fmt::format("{}", step.loss),
          one ? fmt::format("{}", one->loss) : "",
          fmt::format("{:.6g}", step.seconds),
          fmt::format("{:.6g}", tokens_per_second(options, step)),
          std::to_string(step.activation_bytes),
          std::to_string(step.parameter_bytes),
          std::to_string(step.sent_bytes)};
}

}  // namespace

int train(const TrainOptions& options, const Processes& processes) {
  const bool process = comm::ranks_are_processes(comm::backend(options.transport));
  const Hosts hosts(processes);
  std::optional<NewCsv> csv;  // of the first process
  const std::string text = processes.told_by_first([&] {
    if (process) model::require_ranks(options.mesh, processes.size());
    std::string all = read(options);
    const std::string takes = concat("--batch: ", options.batch, " samples of ", options.length,
                                     " tokens and this model take at least ");
    hosts.require_memory(options.transport, options.ranks(), bytes_needed(options), takes);
    if (options.compare)
      hosts.require_memory("threads", 1, bytes_needed(alone(options)), "--compare: " + takes);
    csv.emplace(options.csv, header());
    return all;
  });
  const Printer printer(options);
  std::vector<TrainedStep> many, one;
  const auto here = [&](const std::function<void()>& body) {
    process ? body() : processes.in_first_or_throw(body);
  };
  here([&] { require_possible_on(options.transport, options); });
  // One rank goes first, so that every row is whole when it is written.
  if (options.compare) {
    processes.in_first_or_throw([&] {
      train_on("threads", alone(options), text,
               [&](const TrainedStep& step) { one.push_back(step); });
    });
  }
  const auto report = [&](const TrainedStep& step) {
    if (many.empty()) printer.begin();
    many.push_back(step);
    printer.print(step);
    csv->append(fields(options, step, options.compare ? &one[many.size() - 1] : nullptr));
  };
  here([&] { train_on(options.transport, options, text, report); });
  const std::string judged = processes.told_by_first([&] {
    const bool right = options.compare ? printer.compare(many, one) : printer.finite(many);
    return std::string(right ? "" : "failed");
  });
  return judged.empty() ? kExitOk : kExitFailed;
}

}  // namespace ringspan::bench
