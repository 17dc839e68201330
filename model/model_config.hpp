// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "attention/tensor.hpp"

namespace ringspan::model {

/// llama: RMSNorm, rotary positions, SwiGLU, no biases. gpt: LayerNorm, learned positions, GELU,
/// biases, dropout.
enum class Variant { llama, gpt };

std::string_view name(Variant variant);
Variant variant(std::string_view name);  // throws invalid_argument, listing the known names

/// What a model is, without saying how it is spread over ranks; equal on all of them.
struct ModelConfig {
  Variant variant = Variant::llama;
  std::int64_t vocabulary = 256;  // bytes
  std::int64_t layers = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4, kv_heads = 2;     // kv_heads divides heads
  std::int64_t head_dim = 16;               // even, for rotary positions
  std::int64_t mlp_hidden = 172;            // between the MLP's two products
  std::int64_t positions = 1024;            // gpt: longest document
  std::optional<std::int64_t> window = {};  // tokens before its own that a token sees; unset: all
  double rope_base = 10000;                 // llama
  double norm_epsilon = 1e-5;
  double dropout = 0;  // gpt: after the embedding, attention's projection and the MLP; in [0, 1)
  attention::DType dtype = attention::DType::f32;  // or fp64
  /// Attention's sums have the same bits in every order; for kernels that add up so.
  bool reproducible = false;
  double weight_deviation = 0.02;  // of what weights start from
  std::uint64_t seed = 1;

  /// Of products that end a sublayer: their variances add up along the residual (Radford et al.
  /// 2019).
  double residual_deviation() const {
    return weight_deviation / std::sqrt(2.0 * static_cast<double>(layers));
  }
};

/// Throws invalid_argument naming the rule that is broken and what would be legal, for a tensor
/// group of this many ranks, too.
void require_valid(const ModelConfig& config, int tensor_degree);

}  // namespace ringspan::model
