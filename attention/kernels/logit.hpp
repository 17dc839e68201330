// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "attention/kernels.hpp"

namespace ringspan::attention {

/// A logit and its derivative by scale * q.k.
struct Logit {
  double value, slope;
};

inline Logit logit(const Logits& logits, double dot) {
  const double s = logits.scale * dot;
  if (!logits.softcap) return {s, 1};
  const double t = std::tanh(s / *logits.softcap);
  return {*logits.softcap * t, 1 - t * t};
}

}  // namespace ringspan::attention
