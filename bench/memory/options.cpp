// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/options.hpp"

#include <string_view>

#include "bench/ask/axes.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--published",
     "a folder of CSVs, or a comma list of CSVs, in the columns of results/published "
     "[what comes with the program]"},
    {"--table", "which tables [all that have a row there]"},
    {"--measured", "trains a small model on threads instead, and prints what that takes", true},
    {"--model", "counts the activations of a model instead, by the same formulas"},
    {"--seq", "tokens, of a model or measured [8Ki; 1Ki]"},
    {"--batch", "its samples at a time [1]"},
    {"--ranks", "numbers of ranks, likewise [1, 2, 4 and 8 times --tensor]"},
    {"--tensor", "ranks of them that cut heads and MLPs [1]"},
    {"--csv", "write a row for each figure into a new file"},
};

constexpr std::string_view kOfModel[] = {"--batch", "--tensor"};
constexpr std::string_view kOfEither[] = {"--seq", "--ranks"};
constexpr std::string_view kOfPublished[] = {"--published", "--table"};
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31, kMostRanks = 1 << 17;
constexpr std::int64_t kMostMeasured = 1 << 16;  // tokens: seconds, and a gigabyte

std::vector<std::int64_t> several(const OptionTexts& texts, std::string_view option,
                                  std::string_view otherwise, std::int64_t most) {
  const auto given = texts.find(option);
  const auto values = integers(option, given == texts.end() ? otherwise : given->second, 1);
  for (const std::int64_t value : values) {
    RINGSPAN_REQUIRE(value <= most, option, ": ", value, " is too large; the most is ", most);
  }
  return values;
}

std::int64_t one(const OptionTexts& texts, std::string_view option, std::string_view otherwise,
                 std::int64_t most) {
  const std::vector<std::int64_t> values = several(texts, option, otherwise, most);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
  return values[0];
}

MemoryProblem problem(const OptionTexts& texts) {
  MemoryProblem problem{model(texts.find("--model")->second)};
  problem.sequence_length = one(texts, "--seq", "8Ki", kMostTokens);
  problem.batch = one(texts, "--batch", "1", 1 << 16);
  problem.tensor = one(texts, "--tensor", "1", kMostRanks);
  std::string multiples;
  for (const int factor : {1, 2, 4, 8}) {
    multiples += concat(multiples.empty() ? "" : ",", factor * problem.tensor);
  }
  problem.ranks = several(texts, "--ranks", multiples, kMostRanks);
  const Model& of = problem.model;
  RINGSPAN_REQUIRE(of.experts == 1, "--model: ", of.name, " is a mixture of ", of.experts,
                   " experts; formulas are of dense models");
  RINGSPAN_REQUIRE(of.heads % problem.tensor == 0 && of.ffn_hidden % problem.tensor == 0,
                   "--tensor: ", problem.tensor, " does not divide the ", of.heads,
                   " heads and MLPs of ", of.ffn_hidden, " of ", of.name);
  for (const std::int64_t ranks : problem.ranks) {
    RINGSPAN_REQUIRE(ranks % problem.tensor == 0, "--ranks: ", ranks, " is no multiple of the ",
                     problem.tensor, " of --tensor");
  }
  return problem;
}

}  // namespace

std::span<const OptionEntry> memory_option_entries() { return kEntries; }

MemoryOptions memory_options(const OptionTexts& texts) {
  MemoryOptions options;
  const auto given = [&](std::string_view option) { return texts.count(option) > 0; };
  const bool of_model = given("--model"), measured = given("--measured");
  RINGSPAN_REQUIRE(!of_model || !measured, "--measured: has a model of its own; leave out --model");
  for (const std::string_view option : kOfPublished) {
    RINGSPAN_REQUIRE(!given(option) || !(of_model || measured), option,
                     ": published figures have models of their own; leave out ",
                     of_model ? "--model" : "--measured");
  }
  for (const std::string_view option : kOfModel) {
    RINGSPAN_REQUIRE(!given(option) || of_model, option, ": belongs to a --model; known are ",
                     name_list(models(), &Model::name));
  }
  for (const std::string_view option : kOfEither) {
    RINGSPAN_REQUIRE(!given(option) || of_model || measured, option,
                     ": belongs to --measured or a --model; known are ",
                     name_list(models(), &Model::name));
  }
  if (of_model) options.problem = problem(texts);
  if (measured) {
    options.measured = {one(texts, "--seq", "1Ki", kMostMeasured),
                        several(texts, "--ranks", "1,2,4,8", 64)};
  }
  if (given("--published"))
    options.published = items("--published", texts.find("--published")->second);
  if (given("--table")) options.tables = items("--table", texts.find("--table")->second);
  if (given("--csv")) {
    options.csv = texts.find("--csv")->second;
    RINGSPAN_REQUIRE(!options.csv.empty(), "--csv: the file name is empty");
  }
  return options;
}

}  // namespace ringspan::bench
