// SPDX-License-Identifier: Apache-2.0
#include "model/memory/peak_activation.hpp"

namespace ringspan::model {

PeakActivation peak_activation(Blocking blocking, const PeakShape& shape) {
  const auto b = static_cast<double>(shape.batch), s = static_cast<double>(shape.sequence);
  const auto c = static_cast<double>(shape.block), n = static_cast<double>(shape.heads);
  const auto h = static_cast<double>(shape.hidden);
  switch (blocking) {
    case Blocking::none: return {2 * b * n * s * s, 8 * b * s * h};
    case Blocking::attention: return {2 * b * s * h + 4 * b * c * h, 8 * b * s * h};
    case Blocking::both: return {2 * b * s * h, 2 * b * s * h};
    case Blocking::ring: break;
  }
  return {6 * b * c * h, 2 * b * c * h};
}

}  // namespace ringspan::model
