// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/sweep_options.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "bench/ask/axes.hpp"
#include "bench/ask/cluster_file.hpp"
#include "bench/ask/mask_text.hpp"
#include "bench/ask/models.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--transport", "how bytes move between ranks [threads; --device cuda: nccl]"},
    {"--device", "where memory lives and kernels run: host, cuda [that of the transport]"},
    {"--cluster", "simulated: kinds of nodes such as h800, or cluster files"},
    {"--schedule",
     "ring, striped, zigzag, ulysses, usp, all_gather_kv [these], ulysses_overlapped, dist_flash, "
     "double_ring, bidirectional_ring, halo, ring_self_attention"},
    {"--layout", "contiguous, striped, zigzag [what the schedule implies]"},
    {"--kernel",
     "cpu, reference, reproducible, null; GPUs: cuda, cudnn, null; simulated: null, modelled, "
     "modelled:fa2, :fa3, :fa4 or :cudnn, and +fused behind these [cpu; cuda; modelled]"},
    {"--ranks", "number of ranks [1,2]"},
    {"--ranks-per-node", "pretend that nodes hold this many ranks [all on one node]"},
    {"--ulysses-degree", "usp: ranks that share heads [the ranks of a node]"},
    {"--inner-ring", "double_ring, usp: ranks of an inner ring [those of a node; usp: one ring]"},
    {"--head-groups", "ulysses_overlapped, usp: groups that heads move in [4; usp: 1]"},
    {"--placement", "usp: neighbouring ranks: ulysses_inner, ring_inner [ulysses_inner]"},
    {"--all-to-all", "ulysses, ulysses_overlapped, usp: direct, hierarchical, automatic [direct]"},
    {"--hop", "how a hop in one address space goes: copy, reference [copy]"},
    {"--backward",
     "ring, striped, zigzag, double_ring, usp: what travels backward: kv, q, automatic [kv]"},
    {"--seq", "tokens of the whole sequence [1Ki]"},
    {"--tokens-per-rank", "tokens of each rank, in place of --seq"},
    {"--batch", "sequences [1]"},
    {"--heads", "query heads [8]"},
    {"--kv-heads", "key and value heads [as many as query heads]"},
    {"--head-dim", "size of a query and a key [64]"},
    {"--value-dim", "size of a value [as --head-dim]"},
    {"--model", "heads, KV heads and head_dim of a model, in place of those options"},
    {"--dtype", "fp32, bf16, fp16, fp64 [fp32; GPUs, simulated: bf16]"},
    {"--mask",
     "full, causal, window:LEFT[:RIGHT], documents:N,N,..., documents:sampled, "
     "joined by + [causal]"},
    {"--softmax-scale", "factor of the logits [1 / sqrt(head_dim)]"},
    {"--softcap", "bound of the logits [none]"},
    {"--sinks", "one attention sink per head", true},
    {"--pass", "forward, backward, both [forward]"},
    {"--warmup", "iterations that are not counted [1]"},
    {"--repeats", "iterations that are [5]"},
    {"--check", "compare sampled rows with an fp64 computation", true},
    {"--seed", "of inputs, sampled documents and sampled rows [1]"},
    {"--deadline", "seconds that an awaited rank may make no progress [60]"},
    {"--point-timeout", "seconds after which a point is given up [600]"},
    {"--csv", "append rows to this file"},
    {"--resume", "continue the file: skip the points that it holds", true},
    {"--config", "a TOML file with any of these options (without the dashes)"},
};

/// What the texts are read through; defaults stand where they are asked for.
class Texts {
 public:
  explicit Texts(const OptionTexts& texts) : texts_(texts) {}

  bool has(std::string_view option) const { return texts_.find(option) != texts_.end(); }
  std::string text(std::string_view option, std::string_view otherwise) const {
    const auto found = texts_.find(option);
    return found == texts_.end() ? std::string(otherwise) : found->second;
  }

 private:
  const OptionTexts& texts_;
};

template <typename Table>
std::vector<std::string_view> known_names(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& entry : table) names.push_back(entry.name);
  return names;
}

constexpr std::int64_t kMostRanks = 4096, kMostHeadGroups = 4096;
constexpr std::int64_t kMostIterations = 1'000'000;

void require_at_most(std::string_view option, std::int64_t value, std::int64_t most) {
  RINGSPAN_REQUIRE(value <= most, option, ": ", value, " is too large; the most is ", most);
}

std::int64_t integer(const Texts& texts, std::string_view option, std::int64_t otherwise,
                     std::int64_t least, std::int64_t most) {
  if (!texts.has(option)) return otherwise;
  const std::vector<std::int64_t> values = integers(option, texts.text(option, ""), least);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value, the same for all points");
  require_at_most(option, values[0], most);
  return values[0];
}

void require_mask(const std::string& mask) {
  try {
    parse_mask_text(mask);
  } catch (const Error& error) {
    RINGSPAN_REQUIRE(false, "--mask: ", error.what());
  }
}

std::vector<std::string_view> known_kernels() {
  std::vector<std::string_view> known = known_names(attention::kernel_families());
  const std::vector<std::string_view> modelled = known_names(attention::modelled_kernel_families());
  known.insert(known.end(), modelled.begin(), modelled.end());
  return known;
}

/// Transports that simulate need a cluster, and only they have a use for one.
void add_clusters(const Texts& texts, const Clusters& clusters, Axes& axes) {
  const std::vector<std::string>& transports = axes.names[0].values;
  const bool simulated = std::any_of(transports.begin(), transports.end(), [](const auto& name) {
    return comm::backend(name).world == "simulated";
  });
  RINGSPAN_REQUIRE(simulated || !texts.has("--cluster"),
                   "--cluster: belongs to --transport simulated, which is not asked for");
  if (!simulated) return;
  RINGSPAN_REQUIRE(texts.has("--cluster"), "--cluster: simulated ranks need one; ",
                   cluster_choice());
  RINGSPAN_REQUIRE(!texts.has("--check") || transports.size() > 1,
                   "--check: simulated ranks have no data that could be checked");
  axes.names.push_back(
      {&Point::cluster, items("--cluster", texts.text("--cluster", "")), "--cluster"});
  axes.clusters = clusters;
}

Axes name_axes(const Texts& texts, const Clusters& clusters) {
  Axes axes;
  const auto add = [&](std::string_view option, std::string Point::*member,
                       std::string_view otherwise, const std::vector<std::string_view>& known) {
    if (!texts.has(option) && otherwise.empty()) return;
    axes.names.push_back({member, names(option, texts.text(option, otherwise), known), option});
  };
  const bool on_gpus = texts.text("--device", "") == "cuda";
  add("--transport", &Point::transport, on_gpus ? "nccl" : "threads",
      known_names(comm::backends()));
  add_clusters(texts, clusters, axes);
  add("--device", &Point::device, "", {"host", "cuda"});
  add("--kernel", &Point::kernel, "", known_kernels());
  add("--dtype", &Point::dtype, "", {"fp32", "bf16", "fp16", "fp64"});
  add("--pass", &Point::pass, "forward", {"forward", "backward", "both"});
  axes.names.push_back({&Point::mask, masks("--mask", texts.text("--mask", "causal")), "--mask"});
  for (const std::string& mask : axes.names.back().values) require_mask(mask);
  // Those that trainers use; some of the others need a certain mask, or are there for history.
  constexpr std::string_view usual = "ring,striped,zigzag,ulysses,usp,all_gather_kv";
  add("--schedule", &Point::schedule, usual, known_names(attention::schedules()));
  add("--layout", &Point::layout, "", {"contiguous", "striped", "zigzag"});
  add("--placement", &Point::placement, "", {"ulysses_inner", "ring_inner"});
  add("--all-to-all", &Point::all_to_all, "", {"direct", "hierarchical", "automatic"});
  add("--hop", &Point::hop, "copy", {"copy", "reference"});
  add("--backward", &Point::backward, "", {"kv", "q", "automatic"});
  return axes;
}

void add_number_axes(const Texts& texts, Axes& axes) {
  const auto add = [&](std::string_view option, std::int64_t Point::*member,
                       std::string_view otherwise, std::int64_t most = INT64_MAX) {
    if (!texts.has(option) && otherwise.empty()) return;
    axes.numbers.push_back({member, integers(option, texts.text(option, otherwise), 1), option});
    for (const std::int64_t value : axes.numbers.back().values) {
      require_at_most(option, value, most);
    }
  };
  const bool model = texts.has("--model"), per_rank = texts.has("--tokens-per-rank");
  RINGSPAN_REQUIRE(!per_rank || !texts.has("--seq"), "--tokens-per-rank: stands in place of --seq");
  for (const std::string_view option : {"--heads", "--kv-heads", "--head-dim"}) {
    RINGSPAN_REQUIRE(!model || !texts.has(option), "--model: stands in place of ", option);
  }
  add("--ranks", &Point::ranks, "1,2", kMostRanks);
  const int pretended = comm::launch_options_from_environment().ranks_per_node;
  add("--ranks-per-node", &Point::ranks_per_node, pretended > 0 ? std::to_string(pretended) : "");
  add("--ulysses-degree", &Point::ulysses_degree, "");
  add("--inner-ring", &Point::inner_ring, "");
  add("--head-groups", &Point::head_groups, "", kMostHeadGroups);
  add("--batch", &Point::batch, "1");
  add("--heads", &Point::heads, model ? "" : "8");
  add("--kv-heads", &Point::kv_heads, "");
  add("--head-dim", &Point::head_dim, model ? "" : "64");
  add("--value-dim", &Point::value_dim, "");
  add("--seq", &Point::sequence_length, per_rank ? "" : "1Ki");
  add("--tokens-per-rank", &Point::tokens_per_rank, "");
  if (model) axes.models = names("--model", texts.text("--model", ""), known_names(models()));
}

MeasureOptions measure_options(const Texts& texts) {
  MeasureOptions options;
  const auto seconds = [&](std::string_view option, double otherwise) {
    return texts.has(option) ? number(option, texts.text(option, ""), 0, true) : otherwise;
  };
  if (texts.has("--softmax-scale")) {
    options.softmax_scale = number("--softmax-scale", texts.text("--softmax-scale", ""), -1e30);
  }
  if (texts.has("--softcap")) {
    options.softcap = number("--softcap", texts.text("--softcap", ""), 0, true);
  }
  options.sinks = texts.has("--sinks");
  options.check = texts.has("--check");
  options.warmup = static_cast<int>(integer(texts, "--warmup", 1, 0, kMostIterations));
  options.repeats = static_cast<int>(integer(texts, "--repeats", 5, 1, kMostIterations));
  options.seed = static_cast<std::uint64_t>(integer(texts, "--seed", 1, 0, INT64_MAX));
  if (texts.has("--deadline")) options.deadline = seconds("--deadline", 0);
  options.point_timeout = seconds("--point-timeout", options.point_timeout);
  return options;
}

}  // namespace

std::span<const OptionEntry> sweep_option_entries() { return kEntries; }

SweepOptions sweep_options(const OptionTexts& given, const Clusters& clusters) {
  const Texts texts(given);
  SweepOptions options{name_axes(texts, clusters), measure_options(texts), texts.text("--csv", ""),
                       texts.has("--resume")};
  add_number_axes(texts, options.axes);
  RINGSPAN_REQUIRE(!texts.has("--csv") || !options.csv.empty(), "--csv: the file name is empty");
  RINGSPAN_REQUIRE(!options.resume || !options.csv.empty(),
                   "--resume: names no file; give it with --csv FILE");
  return options;
}

}  // namespace ringspan::bench
