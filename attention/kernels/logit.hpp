// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// exp(s - lse), and at most 1: lse is rounded, by any amount where logits are huge. NaN stays NaN.
template <typename Number>
Number softmax_weight(Number s, Number lse) {
  return std::exp(std::min(s - lse, Number(0)));
}

}  // namespace ringspan::attention
