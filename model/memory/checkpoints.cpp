// SPDX-License-Identifier: Apache-2.0
#include "model/memory/checkpoints.hpp"

namespace ringspan::model {

double checkpoint_bytes(std::int64_t tokens, std::int64_t hidden, std::int64_t layers) {
  return 2 * static_cast<double>(tokens) * static_cast<double>(hidden) *
         static_cast<double>(layers);
}

double square_bytes(std::int64_t tokens) {
  return 2 * static_cast<double>(tokens) * static_cast<double>(tokens);
}

std::int64_t mlp_tiles(std::int64_t tokens, std::int64_t hidden) {
  return (tokens + hidden - 1) / hidden;
}

}  // namespace ringspan::model
