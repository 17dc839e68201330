// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.hpp"

#include "comm/error.hpp"

namespace ringspan::model {
namespace {

void require_positive(std::string_view what, std::int64_t value) {
  RINGSPAN_REQUIRE(value >= 1, what, " is ", value, "; it must be at least 1");
}

}  // namespace

std::string_view name(Variant variant) { return variant == Variant::gpt ? "gpt" : "llama"; }

Variant variant(std::string_view text) {
  for (const Variant known : {Variant::llama, Variant::gpt}) {
    if (name(known) == text) return known;
  }
  RINGSPAN_REQUIRE(false, "unknown variant '", text, "'; known are llama, gpt");
  return Variant::llama;
}

void require_valid(const ModelConfig& config, int tensor_degree) {
  require_positive("vocabulary", config.vocabulary);
  require_positive("layers", config.layers);
  require_positive("hidden", config.hidden);
  require_positive("heads", config.heads);
  require_positive("kv_heads", config.kv_heads);
  require_positive("head_dim", config.head_dim);
  require_positive("mlp_hidden", config.mlp_hidden);
  require_positive("positions", config.positions);
  RINGSPAN_REQUIRE(config.window.value_or(0) >= 0, "window is ", *config.window,
                   "; it must be at least 0, so that every token sees itself");
  RINGSPAN_REQUIRE(config.heads % config.kv_heads == 0, "kv_heads is ", config.kv_heads,
                   ", which does not divide the ", config.heads, " heads");
  RINGSPAN_REQUIRE(config.kv_heads % tensor_degree == 0, "tensor is ", tensor_degree,
                   ", which does not divide the ", config.kv_heads,
                   " KV heads: a rank has whole KV heads and their query heads");
  RINGSPAN_REQUIRE(config.variant == Variant::gpt || config.head_dim % 2 == 0, "head_dim is ",
                   config.head_dim, "; rotary positions turn pairs, so it must be even");
  RINGSPAN_REQUIRE(config.variant == Variant::gpt || config.dropout == 0, "dropout is ",
                   config.dropout, ", but variant llama has none; gpt has");
  RINGSPAN_REQUIRE(config.dropout >= 0 && config.dropout < 1, "dropout is ", config.dropout,
                   "; it must be at least 0 and less than 1");
  RINGSPAN_REQUIRE(config.dtype == attention::DType::f32 || config.dtype == attention::DType::f64,
                   "a model computes in fp32 or fp64, not in ", attention::name(config.dtype));
}

}  // namespace ringspan::model
