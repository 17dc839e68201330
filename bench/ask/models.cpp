// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/models.hpp"

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::string_view kLlama3 = "The Llama 3 Herd of Models (arXiv 2407.21783), table 3";
constexpr std::string_view kMegatron = "Korthikanti et al. (arXiv 2205.05198), table 3";

constexpr Model kModels[] = {
    {"llama2-7b", 32, 32, 128, "Llama 2 (arXiv 2307.09288), config.json of Llama-2-7b",  //
     32, 4096, 11008, 32000, true, false},
    {"llama3-8b", 32, 8, 128, kLlama3, 32, 4096, 14336, 128256, true, false},
    {"llama3-70b", 64, 8, 128, kLlama3, 80, 8192, 28672, 128256, true, false},
    {"llama3-405b", 128, 8, 128, kLlama3, 126, 16384, 53248, 128256, true, false},
    {"qwen3-235b", 64, 4, 128, "Qwen3 (arXiv 2505.09388), table 2, config.json of Qwen3-235B-A22B",
     94, 4096, 1536, 151936, true, false, 128},
    {"qwen3-32b", 64, 8, 128, "Qwen3 (arXiv 2505.09388), table 1, config.json of Qwen3-32B",  //
     64, 5120, 25600, 151936, true, false},
    {"gpt3-175b", 96, 96, 128, "GPT-3 (arXiv 2005.14165), table 2.1",  //
     96, 12288, 49152, 50257, false, true},
    {"megatron-22b", 64, 64, 96, kMegatron, 48, 6144, 24576, 51200, false, true},
    {"megatron-530b", 128, 128, 160, kMegatron, 105, 20480, 81920, 51200, false, true},
    {"megatron-1t", 160, 160, 160, kMegatron, 128, 25600, 102400, 51200, false, true},
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
