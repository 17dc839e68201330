// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/models.hpp"

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr Model kModels[] = {
    {"llama2-7b", 32, 32, 128, "Llama 2 (arXiv 2307.09288), config.json of Llama-2-7b"},
    {"llama3-8b", 32, 8, 128, "The Llama 3 Herd of Models (arXiv 2407.21783), table 3"},
    {"llama3-70b", 64, 8, 128, "The Llama 3 Herd of Models (arXiv 2407.21783), table 3"},
    {"llama3-405b", 128, 8, 128, "The Llama 3 Herd of Models (arXiv 2407.21783), table 3"},
    {"qwen3-235b", 64, 4, 128, "Qwen3 (arXiv 2505.09388), table 2, config.json of Qwen3-235B-A22B"},
    {"gpt3-175b", 96, 96, 128, "GPT-3 (arXiv 2005.14165), table 2.1"},
};

}  // namespace

std::span<const Model> models() { return kModels; }

const Model& model(std::string_view name) {
  for (const Model& known : kModels) {
    if (known.name == name) return known;
  }
  RINGSPAN_REQUIRE(false, "--model: unknown model '", name, "'; known are ",
                   name_list(models(), &Model::name));
  return kModels[0];
}

}  // namespace ringspan::bench
