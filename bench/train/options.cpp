// SPDX-License-Identifier: Apache-2.0
#include "bench/train/options.hpp"

#include <string_view>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/ask/axes.hpp"
#include "bench/ask/share_folder.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--mesh", "ranks by axis: tensor, ulysses, ring, data (or shard, replicate) [ring=2]"},
    {"--schedule", "of attention [zigzag; ulysses or usp where the mesh says so]"},
    {"--inner-ring", "double_ring, usp: ranks of an inner ring [those of a node; usp: one ring]"},
    {"--head-groups", "ulysses_overlapped, usp: groups that heads move in [4; usp: 1]"},
    {"--placement", "usp: neighbouring ranks: ulysses_inner, ring_inner [ulysses_inner]"},
    {"--backward", "of rings: what travels in the backward pass: kv, q, automatic [kv]"},
    {"--kernel", "of attention: cpu, reference, reproducible, linear [cpu; of fp64 reference]"},
    {"--transport", "how bytes move between ranks [threads]"},
    {"--hop", "how a ring's hop in one address space goes: copy, reference [copy]"},
    {"--deadline", "seconds that an awaited rank may make no progress [60]"},
    {"--variant", "llama (RMSNorm, rotary, SwiGLU), gpt (LayerNorm, GELU, dropout) [llama]"},
    {"--layers", "blocks [2]"},
    {"--hidden", "features of a token [128]"},
    {"--heads", "query heads [8]"},
    {"--kv-heads", "KV heads [4]"},
    {"--head-dim", "features of a head [16]"},
    {"--mlp-hidden", "features inside the MLP [352]"},
    {"--window", "tokens before its own that a token sees [all]"},
    {"--dropout", "gpt: share of features dropped [0.1]"},
    {"--dtype", "fp32, fp64 [fp32]"},
    {"--recompute", "none, selective, selective_plus, full [none]"},
    {"--offload", "what blocks keep of their input goes to memory that is not counted", true},
    {"--mlp-tiles", "tiles of tokens that the MLP goes through [1]"},
    {"--blockwise", "these tiles begin at attention's projection", true},
    {"--loss-tiles", "tiles of tokens whose logits exist at once [1]"},
    {"--text", "a file to learn, by bytes [Alice's Adventures in Wonderland]"},
    {"--seq", "tokens of a sample [256]"},
    {"--batch", "samples of a step, on all ranks together [4]"},
    {"--steps", "training steps [20]"},
    {"--learning-rate", "of AdamW [0.001]"},
    {"--seed", "of parameters, dropout and samples [1]"},
    {"--compare", "trains on one rank as well, and prints the difference", true},
    {"--csv", "write a row for each step into a new file"},
};

struct Name {
  std::string_view name;
};
constexpr Name kHops[] = {{"copy"}, {"reference"}};
constexpr Name kKernels[] = {{"cpu"}, {"reference"}, {"reproducible"}, {"linear"}};

constexpr std::int64_t kMost = std::int64_t{1} << 30;
constexpr std::int64_t kMostRanks = 4096;

class Texts {
 public:
  explicit Texts(const OptionTexts& texts) : texts_(texts) {}

  bool has(std::string_view option) const { return texts_.count(option) > 0; }

  std::string text(std::string_view option, std::string_view otherwise) const {
    const auto found = texts_.find(option);
    return found == texts_.end() ? std::string(otherwise) : found->second;
  }

  std::int64_t integer(std::string_view option, std::string_view otherwise,
                       std::int64_t least = 1) const {
    const std::vector<std::int64_t> values = integers(option, text(option, otherwise), least);
    RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
    RINGSPAN_REQUIRE(values[0] <= kMost, option, ": ", values[0], " is too large; the most is ",
                     kMost);
    return values[0];
  }

  template <typename Table>
  std::string one_of(std::string_view option, std::string_view otherwise,
                     const Table& table) const {
    std::vector<std::string_view> known;
    for (const auto& entry : table) known.push_back(entry.name);
    const std::vector<std::string> values = names(option, text(option, otherwise), known);
    RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
    return values[0];
  }

 private:
  const OptionTexts& texts_;
};

/// What `read` makes of the option's text; the message names the option.
template <typename Read>
auto parsed(const Texts& texts, std::string_view option, std::string_view otherwise, Read read) {
  try {
    return read(texts.text(option, otherwise));
  } catch (const Error& error) {
    throw Error(error.kind(), concat(option, ": ", error.what()));
  }
}

model::ModelConfig config_of(const Texts& texts, std::int64_t length) {
  model::ModelConfig config;
  config.variant = parsed(texts, "--variant", "llama", model::variant);
  config.layers = texts.integer("--layers", "2");
  config.hidden = texts.integer("--hidden", "128");
  config.heads = texts.integer("--heads", "8");
  config.kv_heads = texts.integer("--kv-heads", "4");
  config.head_dim = texts.integer("--head-dim", "16");
  config.mlp_hidden = texts.integer("--mlp-hidden", "352");
  config.positions = length;
  if (texts.has("--window")) config.window = texts.integer("--window", "", 0);
  const bool drops = config.variant == model::Variant::gpt;
  config.dropout = number("--dropout", texts.text("--dropout", drops ? "0.1" : "0"), 0);
  config.dtype = parsed(texts, "--dtype", "fp32", attention::dtype);
  config.seed = static_cast<std::uint64_t>(texts.integer("--seed", "1", 0));
  return config;
}

/// Of the schedules that have one dimension, the sequence has one, too.
std::string schedule_of(const Texts& texts, const model::MeshShape& mesh) {
  const bool two = mesh.ulysses > 1 && mesh.ring > 1;
  const std::string schedule = texts.one_of("--schedule",
                                            two                ? "usp"
                                            : mesh.ulysses > 1 ? "ulysses"
                                                               : "zigzag",
                                            attention::schedules());
  RINGSPAN_REQUIRE(!two || attention::schedule_entry(schedule).takes_ulysses_degree,
                   "--schedule: ", schedule, " has one dimension, but mesh ", name(mesh),
                   " has ulysses and ring; give all ranks of a sequence to one of them");
  return schedule;
}

/// What the schedule has been asked for beyond its name.
void read_attention(const Texts& texts, TrainOptions& options) {
  options.schedule = schedule_of(texts, options.mesh);
  const attention::ScheduleEntry& schedule = attention::schedule_entry(options.schedule);
  if (texts.has("--inner-ring")) {
    RINGSPAN_REQUIRE(schedule.takes_inner_ring, "--inner-ring: ", schedule.name,
                     " has none; double_ring and usp have");
    options.inner_ring = static_cast<int>(texts.integer("--inner-ring", ""));
  }
  if (texts.has("--head-groups")) {
    RINGSPAN_REQUIRE(schedule.head_groups > 0, "--head-groups: ", schedule.name,
                     " has none; ulysses_overlapped and usp have");
    options.head_groups = static_cast<int>(texts.integer("--head-groups", ""));
  }
  if (texts.has("--placement")) {
    RINGSPAN_REQUIRE(schedule.takes_ulysses_degree, "--placement: ", schedule.name,
                     " has none; usp has");
    options.mesh.placement = parsed(texts, "--placement", "", attention::placement);
  }
  RINGSPAN_REQUIRE(schedule.takes_backward || !texts.has("--backward"),
                   "--backward: ", schedule.name,
                   " has one form; ring, striped, zigzag, double_ring and usp have "
                   "two");
  options.backward = parsed(texts, "--backward", "kv", attention::backward_form);
  const bool wide = options.config.dtype == attention::DType::f64;
  options.kernel = texts.one_of("--kernel", wide ? "reference" : "cpu", kKernels);
  RINGSPAN_REQUIRE(!wide || options.kernel == "reference" || options.kernel == "linear",
                   "--kernel: ", options.kernel, " takes no fp64; reference and linear do");
  options.config.reproducible = options.kernel == "reproducible";
}

}  // namespace

std::span<const OptionEntry> train_option_entries() { return kEntries; }

TrainOptions train_options(const OptionTexts& given) {
  const Texts texts(given);
  TrainOptions options;
  options.mesh = parsed(texts, "--mesh", "ring=2", model::parse_mesh);
  RINGSPAN_REQUIRE(model::product(options.mesh) <= kMostRanks, "--mesh: ", name(options.mesh),
                   " has too many ranks; the most are ", kMostRanks);
  model::require_trainable(options.mesh);
  options.transport = texts.one_of("--transport", "threads", comm::backends());
  RINGSPAN_REQUIRE(comm::backend(options.transport).world == "host",
                   "--transport: the layers of the model run on the host; '", options.transport,
                   "' is no transport of its memory");
  options.hop =
      texts.one_of("--hop", "copy", kHops) == "copy" ? comm::Hop::copy : comm::Hop::reference;
  if (texts.has("--deadline")) {
    options.deadline = number("--deadline", texts.text("--deadline", ""), 0, true);
  }
  options.length = texts.integer("--seq", "256", 2);
  options.batch = texts.integer("--batch", "4");
  RINGSPAN_REQUIRE(options.batch >= options.mesh.data(), "--batch: ", options.batch,
                   " samples for ", options.mesh.data(),
                   " data-parallel ranks; each needs at least one");
  options.config = config_of(texts, options.length);
  model::require_valid(options.config, options.mesh.tensor);
  read_attention(texts, options);
  const auto tiles = [&](std::string_view option, std::int64_t tokens, std::string_view whose) {
    const std::int64_t count = texts.integer(option, "1");
    RINGSPAN_REQUIRE(count <= tokens, option, ": ", count, " tiles of the ", tokens, " tokens of ",
                     whose, "; as many at most");
    return count;
  };
  options.memory = {parsed(texts, "--recompute", "none", model::recompute), texts.has("--offload"),
                    tiles("--mlp-tiles", options.length, "a sample"), texts.has("--blockwise"),
                    tiles("--loss-tiles", options.length * options.batch, "a step")};
  options.optimizer.learning_rate =
      number("--learning-rate", texts.text("--learning-rate", "0.001"), 0);
  options.text = texts.text("--text", (share_folder() / "texts" / "alice.txt").string());
  options.steps = static_cast<int>(texts.integer("--steps", "20"));
  options.compare = texts.has("--compare");
  options.csv = texts.text("--csv", "");
  RINGSPAN_REQUIRE(!texts.has("--csv") || !options.csv.empty(), "--csv: the file name is empty");
  return options;
}

}  // namespace ringspan::bench
