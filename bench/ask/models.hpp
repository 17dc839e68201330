// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ringspan::bench {

/// The attention shape of a published model.
struct Model {
  std::string_view name;
  std::int64_t heads, kv_heads, head_dim;
  std::string_view source;
};

std::span<const Model> models();

/// Throws invalid_argument, listing the known names.
const Model& model(std::string_view name);

}  // namespace ringspan::bench
