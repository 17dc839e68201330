// SPDX-License-Identifier: Apache-2.0
#include "model/tokens.hpp"

namespace ringspan::model {

Tokens Tokens::part(std::int64_t first, std::int64_t count) const {
  const auto cut = [&](const auto& all) {
    return all.empty()
               ? all
               : std::decay_t<decltype(all)>(all.begin() + first, all.begin() + first + count);
  };
  return {batch, cut(ids), cut(labels), cut(positions), cut(places), cut(samples), cut(weights)};
}

}  // namespace ringspan::model
