// SPDX-License-Identifier: Apache-2.0
#include "model/memory/ring_self_attention.hpp"

namespace ringspan::model {
namespace {

struct Symbols {
  double B, L, Z, A, N, H;
};

Symbols symbols(const RsaBlock& block) {
  return {static_cast<double>(block.batch), static_cast<double>(block.sequence),
          static_cast<double>(block.heads), static_cast<double>(block.head_size),
          static_cast<double>(block.ranks), static_cast<double>(block.hidden())};
}

}  // namespace

double rsa_mlp_elements(RsaSplit split, const RsaBlock& block) {
  const auto [B, L, Z, A, N, H] = symbols(block);
  if (split == RsaSplit::tensor) return 32 * H * H / N + 4 * B * L * H / N + B * L * H;
  return 32 * H * H + 5 * B * L * H / N;
}

double rsa_attention_elements(RsaSplit split, const RsaBlock& block) {
  const auto [B, L, Z, A, N, H] = symbols(block);
  const double activations = 4 * B * L * Z * A / N + B * Z * L * L / N;
  if (split == RsaSplit::tensor) return 16 * A * Z * H / N + activations + B * L * H;
  return 16 * A * Z * H + activations + B * L * H / N;
}

double rsa_linformer_elements(const RsaBlock& block, std::int64_t projected_keys) {
  const auto [B, L, Z, A, N, H] = symbols(block);
  const auto K = static_cast<double>(projected_keys);
  return 2 * A * Z * H + 2 * B * Z * L * A / N + B * Z * L * K / N + B * L * H / N +
         2 * B * Z * K * A;
}

}  // namespace ringspan::model
