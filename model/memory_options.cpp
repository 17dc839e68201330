// SPDX-License-Identifier: Apache-2.0
#include "model/memory_options.hpp"

#include <array>

#include "comm/error.hpp"

namespace ringspan::model {
namespace {

struct Known {
  std::string_view name;
  Recompute recompute;
};
constexpr std::array kKnown{
    Known{"none", Recompute::none}, Known{"selective", Recompute::selective},
    Known{"selective_plus", Recompute::selective_plus}, Known{"full", Recompute::full}};

}  // namespace

std::string_view name(Recompute recompute) { return kKnown[static_cast<int>(recompute)].name; }

Recompute recompute(std::string_view text) {
  for (const Known& known : kKnown) {
    if (known.name == text) return known.recompute;
  }
  RINGSPAN_REQUIRE(false, "unknown recompute '", text, "'; known are ",
                   name_list(kKnown, &Known::name));
  return Recompute::none;
}

void require_valid(const MemoryOptions& options) {
  RINGSPAN_REQUIRE(options.mlp_tiles >= 1, "mlp_tiles is ", options.mlp_tiles,
                   "; it must be at least 1");
  RINGSPAN_REQUIRE(options.loss_tiles >= 1, "loss_tiles is ", options.loss_tiles,
                   "; it must be at least 1");
}

}  // namespace ringspan::model
