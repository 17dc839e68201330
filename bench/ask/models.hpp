// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ringspan::bench {

/// The shape of a published transformer.
struct Model {
  std::string_view name;
  std::int64_t heads, kv_heads, head_dim;
  std::string_view source;
  std::int64_t layers, hidden, ffn_hidden, vocabulary;  // ffn_hidden: of each expert
  bool gated;                // three matrices in the MLP (SwiGLU) instead of two
  bool tied;                 // logits are taken with the embeddings
  std::int64_t experts = 1;  // in each layer
};

std::span<const Model> models();

/// Throws invalid_argument, listing the known names.
const Model& model(std::string_view name);

}  // namespace ringspan::bench
