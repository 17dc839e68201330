// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "bench/training/training_memory.hpp"

namespace ringspan::bench {
namespace {

using std::string;

string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes * 1e-9); }

/// A kind of candidates, of which the best is compared with the best of all.
struct Family {
  string what;
  std::function<bool(const Mix&)> has;
  std::function<string()> why_none;  // no mix of the kind is legal
};

class Why {
 public:
  Why(const PlanOptions& options, const SearchResult& result)
      : options_(options),
        candidates_(result.candidates),
        best_(result.candidates.front()),
        found_(result.found()) {}

  Reasons reasons() const {
    Reasons reasons;
    if (found_) reasons.best = why_best();
    for (const Family& family : families()) {
      if (found_ && family.has(best_.mix)) continue;
      reasons.ruled_out.push_back({family.what, why_not(family)});
    }
    return reasons;
  }

 private:
  std::vector<Family> families() const {
    const auto is = [](std::string_view schedule) {
      return [schedule](const Mix& mix) { return mix.schedule == schedule; };
    };
    const auto only_for_several = [] { return string("there is one GPU"); };
    return {
        {"no sequence parallelism", is("none"), [this] { return why_not_whole(); }},
        {"Ulysses alone", is("ulysses"), [this] { return why_not_ulysses(); }},
        {"ring alone",
         [](const Mix& mix) { return mix.schedule == "zigzag" || mix.schedule == "striped"; },
         only_for_several},
        {"all-gather of K and V", is("all_gather_kv"), only_for_several},
        {"Ulysses and ring", is("usp"), [this] { return why_not_both(); }},
        {"data parallelism", [](const Mix& mix) { return mix.config.data > 1; },
         [this] { return why_no_data(); }},
        {"tensor parallelism", [](const Mix& mix) { return mix.config.tensor > 1; },
         [this] { return why_no_tensor(); }},
    };
  }

  string why_not(const Family& family) const {
    const auto found =
        std::find_if(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& candidate) { return family.has(candidate.mix); });
    if (found == candidates_.end()) return family.why_none();
    string why = !found->fits ? why_too_large(*found)
                 : found_     ? why_slower(*found)
                              : text(found->mix) + " may fit; it was not simulated";
    const TrainingConfig& config = found->mix.config;
    const std::int64_t kv_heads = options_.model.kv_heads / config.tensor;
    if (config.ulysses > kv_heads && kv_heads > 0 && family.what == "Ulysses alone") {
      why += fmt::format("; KV heads {} < ranks {}: pure Ulysses has to replicate KV", kv_heads,
                         config.ulysses);
    }
    return why;
  }

  string why_too_large(const Candidate& candidate) const {
    return fmt::format("does not fit: {}, ZeRO-{}{}, needs {}{} of {}", text(candidate.mix),
                       candidate.mix.config.zero_stage,
                       candidate.mix.config.recompute == Recompute::full ? " and recomputing" : "",
                       candidate.simulated ? "" : "at least ", gigabytes(candidate.memory()),
                       gigabytes(options_.memory_limit));
  }

  string why_slower(const Candidate& candidate) const {
    const double ratio = candidate.seconds() / best_.seconds();
    const string mix = text(candidate.mix);
    if (candidate.simulated)
      return fmt::format("{} takes {:.3f} times as long, most of it for {}", mix, ratio,
                         largest_loss(candidate));
    if (ratio > 1) return fmt::format("{} takes at least {:.3f} times as long", mix, ratio);
    return fmt::format("{} was not simulated; it may take {:.3f} times as long", mix, ratio);
  }

  /// What the other spends more time on than the best.
  string largest_loss(const Candidate& candidate) const {
    struct Part {
      const char* name;
      double StepSeconds::*seconds;
    };
    constexpr Part kParts[] = {
        {"products of smaller matrices", &StepSeconds::products},
        {"attention in smaller blocks", &StepSeconds::attention},
        {"elementwise kernels", &StepSeconds::elementwise},
        {"recomputing", &StepSeconds::recompute},
        {"the optimizer", &StepSeconds::optimizer},
        {"messages of attention", &StepSeconds::attention_messages},
        {"messages of tensor parallelism", &StepSeconds::tensor_messages},
        {"gradients and parameters", &StepSeconds::data_messages},
    };
    const auto loss = [&](const Part& part) {
      return candidate.step.seconds.*part.seconds - best_.step.seconds.*part.seconds;
    };
    const Part& most =
        *std::max_element(std::begin(kParts), std::end(kParts),
                          [&](const Part& a, const Part& b) { return loss(a) < loss(b); });
    return fmt::format("{} ({:.3g} s more)", most.name, loss(most));
  }

  string why_not_whole() const {
    const std::int64_t tensor = most_tensor();
    const std::int64_t replicas = options_.ranks / tensor, batch = options_.global_batch;
    const std::int64_t nearest = std::max<std::int64_t>((batch + replicas / 2) / replicas, 1);
    return fmt::format(
        "{} GPUs and tensor parallelism of at most {} make at least {} replicas, of which a batch "
        "of {} is no multiple; the nearest is {}",
        options_.ranks, tensor, replicas, batch, nearest * replicas);
  }

  /// Replicas that the batch allows, but not the nodes; the nearest batch that allows others.
  string why_no_data() const {
    if (options_.ranks == 1) return "there is one GPU";
    string why;
    for (const int data : divisors(std::gcd(options_.global_batch, options_.ranks))) {
      if (data > 1) why += data_refusal(options_, data) + "; ";
    }
    if (why.empty()) {
      why = fmt::format("{} GPUs and a batch of {} have no divisor in common but 1; ",
                        options_.ranks, options_.global_batch);
    }
    return fmt::format("{}the nearest batch that can be divided is {}", why, nearest_batch());
  }

  std::int64_t nearest_batch() const {
    const std::vector<int> degrees = divisors(options_.ranks);
    const auto divisible = [&](std::int64_t batch) {
      PlanOptions other = options_;
      other.global_batch = batch;
      return batch > 1 && std::any_of(degrees.begin() + 1, degrees.end(),
                                      [&](int data) { return data_refusal(other, data).empty(); });
    };
    std::int64_t away = 1;
    while (!divisible(options_.global_batch - away) && !divisible(options_.global_batch + away)) {
      ++away;
    }
    const std::int64_t less = options_.global_batch - away;
    return divisible(less) ? less : options_.global_batch + away;
  }

  string why_no_tensor() const {
    const std::int64_t node = options_.cluster.gpus_per_node;
    if (options_.ranks == 1) return "there is one GPU";
    if (node == 1) return "nodes have one GPU each";
    string why;
    for (const int tensor : divisors(options_.ranks)) {
      if (tensor == 1 || tensor > node) continue;
      why += (why.empty() ? "" : "; ") + tensor_refusal(options_, tensor);
    }
    return why;
  }

  /// Without tensor parallelism, which takes heads from Ulysses.
  string why_not_both() const {
    std::int64_t least = 0;  // Ulysses ranks beside a ring
    for (const Candidate& candidate : candidates_) {
      const std::int64_t group = candidate.mix.config.sequence_parallel();
      const std::vector<int> degrees = divisors(group);  // 1, least, ..., group
      if (degrees.size() > 2 && (least == 0 || degrees[1] < least)) least = degrees[1];
    }
    if (least == 0) return "no two degrees above 1 multiply to the GPUs of a sequence";
    return fmt::format("heads {} < ranks {}: the smallest Ulysses group has no head for every rank",
                       options_.model.heads, least);
  }

  std::int64_t most_tensor() const {
    int most = 1;
    for (const Candidate& candidate : candidates_) {
      most = std::max(most, candidate.mix.config.tensor);
    }
    return most;
  }

  string why_not_ulysses() const {
    if (options_.ranks == 1) return "there is one GPU";
    std::int64_t group = options_.ranks;  // the smallest of several GPUs that any mix has
    for (const Candidate& candidate : candidates_) {
      const TrainingConfig& config = candidate.mix.config;
      const std::int64_t other = config.sequence_parallel() * config.tensor;
      if (other > 1) group = std::min(group, other);
    }
    return fmt::format("heads {} < ranks {}: pure Ulysses has no head for every rank",
                       options_.model.heads, group);
  }

  std::vector<string> why_best() const {
    const TrainingConfig& config = best_.mix.config;
    std::vector<string> why;
    if (best_.mix.whole_sequences()) {
      why.push_back(config.data > 1
                        ? fmt::format("batch suffices for data parallelism: {} sequences for {} "
                                      "replicas, so none has to be cut",
                                      config.global_batch, config.data)
                        : "one sequence fits without being cut");
    }
    if (config.ulysses > 1) why.push_back(why_ulysses());
    if (config.ring > 1) why.push_back(why_ring());
    if (!best_.mix.whole_sequences()) {
      why.push_back(fmt::format("exposed messages of attention are {:.1f} % of the step{}",
                                100 * best_.step.seconds.attention_messages / best_.seconds(),
                                what_moves_them()));
    }
    if (config.zero_stage > 0) {
      TrainingConfig less = config;
      --less.zero_stage;
      why.push_back(fmt::format("ZeRO-{}: {}", config.zero_stage, why_not_less(less)));
    }
    if (config.recompute == Recompute::full) {
      TrainingConfig less = config;
      less.recompute = Recompute::none;
      if (config.replicas() > 1) less.zero_stage = 3;
      why.push_back("recomputing: " + why_not_less(less));
    }
    return why;
  }

  /// Of one sequence's messages, those that stay inside a node; empty: none do, or hosts move them.
  string what_moves_them() const {
    const comm::Cluster& on = options_.cluster;
    if (best_.mix.config.tensor >= on.gpus_per_node || on.gpu.kind == "host") return "";
    return fmt::format("; inside a node {} move them",
                       on.fabric.messages.channels == 0 ? "copy engines" : "kernels");
  }

  /// What would happen with less ZeRO or recomputing.
  string why_not_less(const TrainingConfig& less) const {
    const TrainingStep step =
        training_step(options_.model, options_.cluster, less, best_.attention);
    const bool recomputes = best_.mix.config.recompute == Recompute::full;
    const bool still = less.recompute == Recompute::full;
    const string instead =
        fmt::format("ZeRO-{}{}", less.zero_stage, recomputes && !still ? " without it" : "");
    const double bytes = step.memory.total();
    if (bytes > options_.memory_limit)
      return fmt::format("{} needs {} of {}", instead, gigabytes(bytes),
                         gigabytes(options_.memory_limit));
    return fmt::format("{} takes {:.3f} times as long", instead,
                       step.seconds.total() / best_.seconds());
  }

  string where(std::int64_t ranks, std::int64_t stride) const {
    return ranks * stride <= options_.cluster.gpus_per_node ? "inside a node" : "across nodes";
  }

  string why_ulysses() const {
    const TrainingConfig& config = best_.mix.config;
    const std::int64_t stride = config.tensor * (config.ring_inner ? config.ring : 1);
    const std::int64_t heads = options_.model.heads / config.tensor;
    const std::int64_t kv_heads = options_.model.kv_heads / config.tensor;
    string why = fmt::format("Ulysses {} {}: heads suffice, {} for {} ranks", config.ulysses,
                             where(config.ulysses, stride), heads, config.ulysses);
    if (kv_heads > 0 && kv_heads < config.ulysses)
      why += fmt::format("; KV heads do not, and each is sent to {}", config.ulysses / kv_heads);
    return why;
  }

  string why_ring() const {
    const TrainingConfig& config = best_.mix.config;
    const std::int64_t stride = config.tensor * (config.ring_inner ? 1 : config.ulysses);
    return fmt::format("ring {} {}: its messages run beside kernels", config.ring,
                       where(config.ring, stride));
  }

  const PlanOptions& options_;
  const std::vector<Candidate>& candidates_;
  const Candidate& best_;
  const bool found_;
};

}  // namespace

Reasons reasons(const PlanOptions& options, const SearchResult& result) {
  return Why(options, result).reasons();
}

}  // namespace ringspan::bench
