// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/options.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "bench/ask/axes.hpp"
#include "bench/ask/cluster_file.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--model", "whose training step it is"},
    {"--heads", "query heads of a model of your own, in place of --model"},
    {"--kv-heads", "its key and value heads [as many as query heads]"},
    {"--head-dim", "size of its queries and keys"},
    {"--layers", "its layers"},
    {"--hidden", "size of its tokens [heads times head_dim]"},
    {"--ffn-hidden", "size of its MLPs [4 times hidden]"},
    {"--vocabulary", "its tokens [32000]"},
    {"--gated", "its MLPs are gated (SwiGLU)", true},
    {"--cluster", "a kind of nodes such as h800, or a cluster file"},
    {"--ranks", "GPUs [those of one node]"},
    {"--seq", "tokens of a sequence"},
    {"--global-batch", "sequences of a step [1]"},
    {"--memory-limit", "bytes that a step may take of each GPU [what a GPU has]"},
    {"--time-limit", "seconds that planning may take; what it leaves is only bounded [600]"},
    {"--json", "print JSON", true},
};

constexpr std::string_view kShape[] = {"--heads",  "--kv-heads",   "--head-dim",   "--layers",
                                       "--hidden", "--ffn-hidden", "--vocabulary", "--gated"};
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // so that pairs of them can be counted
constexpr std::int64_t kMostRanks = 4096;  // as of a sweep: bounds look at all pairs of them
constexpr std::int64_t kMostSize = std::int64_t{1} << 24;  // of a part of a model
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostSeconds = 1'000'000;
constexpr double kMostElements = 1LL << 54;  // of a tensor: so many bytes per element fit

bool given(const OptionTexts& texts, std::string_view option) { return texts.count(option) > 0; }

const std::string& text(const OptionTexts& texts, std::string_view option) {
  const auto found = texts.find(option);
  RINGSPAN_REQUIRE(found != texts.end(), option, ": a plan needs it");
  return found->second;
}

std::int64_t integer(const OptionTexts& texts, std::string_view option, std::int64_t most) {
  const std::vector<std::int64_t> values = integers(option, text(texts, option), 1);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
  RINGSPAN_REQUIRE(values[0] <= most, option, ": ", values[0], " is too large; the most is ", most);
  return values[0];
}

std::int64_t integer(const OptionTexts& texts, std::string_view option, std::int64_t most,
                     std::int64_t otherwise) {
  if (given(texts, option)) return integer(texts, option, most);
  RINGSPAN_REQUIRE(otherwise <= most, option, ": ", otherwise,
                   ", which it is unless given, is too large; the most is ", most);
  return otherwise;
}

Model own_model(const OptionTexts& texts) {
  Model model;
  model.name = "of your own";
  model.heads = integer(texts, "--heads", kMostSize);
  model.kv_heads = integer(texts, "--kv-heads", kMostSize, model.heads);
  model.head_dim = integer(texts, "--head-dim", kMostSize);
  RINGSPAN_REQUIRE(model.heads * model.head_dim <= kMostSize, "--heads: times ", model.head_dim,
                   " of --head-dim, ", model.heads, " are too many; the most is ",
                   kMostSize / model.head_dim);
  model.layers = integer(texts, "--layers", kMostSize);
  model.hidden = integer(texts, "--hidden", kMostSize, model.heads * model.head_dim);
  model.ffn_hidden = integer(texts, "--ffn-hidden", kMostSize, 4 * model.hidden);
  model.vocabulary = integer(texts, "--vocabulary", kMostSize, 32000);
  model.gated = given(texts, "--gated");
  model.tied = false;
  RINGSPAN_REQUIRE(model.heads % model.kv_heads == 0, "--kv-heads: ", model.kv_heads,
                   " do not divide ", model.heads, " heads");
  return model;
}

Model chosen_model(const OptionTexts& texts) {
  const auto* shape = std::find_if(std::begin(kShape), std::end(kShape),
                                   [&](std::string_view option) { return given(texts, option); });
  const bool own = shape != std::end(kShape);
  RINGSPAN_REQUIRE(!own || !given(texts, "--model"), "--model: stands in place of ",
                   own ? *shape : "");
  RINGSPAN_REQUIRE(own || given(texts, "--model"),
                   "--model: a plan needs one, or --heads, --head-dim and --layers; known are ",
                   name_list(models(), &Model::name));
  return own ? own_model(texts) : model(text(texts, "--model"));
}

comm::Cluster chosen_cluster(const OptionTexts& texts, const Clusters& clusters) {
  if (given(texts, "--cluster")) return clusters.at(text(texts, "--cluster"));
  RINGSPAN_REQUIRE(false, "--cluster: a plan needs one; ", cluster_choice());
  return {};
}

/// No tensor of a step, activations or weights, has more elements than can be counted on.
void require_countable(const PlanOptions& options) {
  const Model& model = options.model;
  const std::int64_t widest =
      std::max({model.heads * model.head_dim, model.hidden, model.ffn_hidden, model.vocabulary});
  const double elements = static_cast<double>(options.sequence_length) *
                          static_cast<double>(options.global_batch) * static_cast<double>(widest);
  RINGSPAN_REQUIRE(elements <= kMostElements, "--seq: ", options.global_batch, " sequences of ",
                   options.sequence_length, " tokens, ", widest,
                   " elements each, are too many; the most is ",
                   static_cast<std::int64_t>(kMostElements), " elements");
}

/// Parts of a node, or whole ones.
void require_ranks(const comm::Cluster& cluster, std::int64_t ranks) {
  const std::int64_t node = cluster.gpus_per_node;
  RINGSPAN_REQUIRE(ranks <= cluster.gpus(), "--ranks: ", ranks, " GPUs, but cluster '",
                   cluster.name, "' has ", cluster.gpus());
  RINGSPAN_REQUIRE(ranks <= node || ranks % node == 0, "--ranks: ", ranks,
                   " GPUs are no whole nodes of ", node, "; take ", ranks / node * node, " or ",
                   (ranks / node + 1) * node);
}

}  // namespace

std::span<const OptionEntry> plan_option_entries() { return kEntries; }

PlanOptions plan_options(const OptionTexts& texts, const Clusters& clusters) {
  PlanOptions options;
  options.model = chosen_model(texts);
  options.cluster = chosen_cluster(texts, clusters);
  options.ranks = integer(texts, "--ranks", kMostRanks, options.cluster.gpus_per_node);
  require_ranks(options.cluster, options.ranks);
  options.sequence_length = integer(texts, "--seq", kMostTokens);
  options.global_batch = integer(texts, "--global-batch", kMostSize, 1);
  const std::int64_t memory = options.cluster.gpu.memory_bytes;
  options.memory_limit = static_cast<double>(integer(texts, "--memory-limit", kMostBytes, memory));
  options.time_limit = static_cast<double>(integer(texts, "--time-limit", kMostSeconds, 600));
  require_countable(options);
  options.json = given(texts, "--json");
  return options;
}

}  // namespace ringspan::bench
