// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.hpp"

#include "comm/error.hpp"

namespace ringspan::model {
namespace {

void require_positive(std::string_view what, std::int64_t value) {
  RINGSPAN_REQUIRE(value >= 1, what, " is ", value, "; it must be at least 1");
}

/// A bound of them; a double, because what is refused may exceed 64 bits.
double parameter_bytes(const ModelConfig& config) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double qkv = (real(config.heads) + 2 * real(config.kv_heads)) * real(config.head_dim);
  const double out = real(config.heads) * real(config.head_dim);
  const double layer = qkv + out + 3 * real(config.mlp_hidden) + 6;  // gated; norms, biases
  const double rows =
      2 * real(config.vocabulary) + real(config.positions) + 2 + real(config.layers) * layer;
  return (real(config.hidden) + 1) * rows *
         static_cast<double>(attention::element_bytes(config.dtype));
}

/// So that no count of elements or bytes leaves 64 bits.
void require_countable(const ModelConfig& config) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  RINGSPAN_REQUIRE(parameter_bytes(config) <= static_cast<double>(kMost), "heads ", config.heads,
                   ", kv_heads ", config.kv_heads, ", head_dim ", config.head_dim, ", hidden ",
                   config.hidden, ", mlp_hidden ", config.mlp_hidden, ", vocabulary ",
                   config.vocabulary, ", positions ", config.positions, " and layers ",
                   config.layers, " make about ", parameter_bytes(config),
                   " bytes of parameters; the most is ", kMost);
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
  require_countable(config);
}

}  // namespace ringspan::model
