// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "bench/validate/tables/tables.hpp"

namespace ringspan::bench {
namespace {

struct Reason {
  std::string_view system, figure;  // how they begin
  std::string_view text;
};

constexpr std::string_view kOfMemory = "memory, not time: ringspan memory has it";

// The first that fits.
constexpr Reason kReasons[] = {
    {"Megatron-SP", "F7", kOfMemory},
    {"Megatron-SP", "sec5", kOfMemory},
    {"ALST", "", kOfMemory},
    {"BPT", "abstract", kOfMemory},
    {"quoted", "", kOfMemory},
    {"DistFlashAttn", "",
     "gains over one GPU and a ring are in results/predictions.md; else memory and steps of a "
     "model"},
    {"DS-Ulysses", "", "neither batch nor shape of the model nor how FLOPs count is published"},
    {"StripedAttention", "T2", "it repeats rows of tables 3 and 4"},
    {"RingAttention", "T4", "training steps in JAX, for whose kernels no speed is published"},
    {"LongVILA", "", "second-hand, without the shapes that were measured"},
    {"DistCA", "", "shares of steps whose shapes are not published"},
    {"DCP", "", "shares of steps whose shapes are not published"},
    {"BPT", "", "one device alone, in JAX: no schedule is involved"},
    {"RSA/ColAI-SP", "", "no cluster of P100, for whose kernels no speed is published"},
};

}  // namespace

std::string why_not(const PublishedRow& row) {
  if (!row.has("system")) return "no published figures";
  for (const Reason& reason : kReasons) {
    if (row["system"].starts_with(reason.system) && row["figure_id"].starts_with(reason.figure)) {
      return std::string(reason.text);
    }
  }
  return "no table here has it";
}

}  // namespace ringspan::bench
