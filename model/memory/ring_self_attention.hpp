// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::model {

/// A block of a transformer in the symbols of Li et al. (arXiv 2105.13120), on one of `ranks`.
struct RsaBlock {
  std::int64_t batch = 0;      // B
  std::int64_t sequence = 0;   // L
  std::int64_t heads = 0;      // Z
  std::int64_t head_size = 0;  // A
  std::int64_t ranks = 1;      // N

  std::int64_t hidden() const { return heads * head_size; }  // H
};

/// How the block is spread: heads and MLP by tensor parallelism, or tokens.
enum class RsaSplit { tensor, sequence };

/// Elements (not bytes) that a rank holds: parameters with their gradients and Adam's moments, and
/// activations (tables 1 and 2 there). Scores are materialised.
///   MLP        tensor    32H^2/N + 4BLH/N + BLH
///              sequence  32H^2 + 5BLH/N
///   attention  tensor    16AZH/N + 4BLZA/N + BZL^2/N + BLH
///              sequence  16AZH + 4BLZA/N + BZL^2/N + BLH/N
double rsa_mlp_elements(RsaSplit split, const RsaBlock& block);
double rsa_attention_elements(RsaSplit split, const RsaBlock& block);

/// Of Linformer's attention, whose K projected keys are the same on all ranks (section 4.3 there):
/// 2AZH + 2BZLA/N + BZLK/N + BLH/N + 2BZKA.
double rsa_linformer_elements(const RsaBlock& block, std::int64_t projected_keys);

}  // namespace ringspan::model
