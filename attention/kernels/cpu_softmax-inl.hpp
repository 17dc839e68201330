// SPDX-License-Identifier: Apache-2.0
// What happens to the logits of a panel, [keys][width], between the matrix products: cap, mask,
// maximum, exponential. Queries are in vector lanes, so every step is vertical. Included once for
// every instruction set.
#if defined(RINGSPAN_CPU_SOFTMAX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGSPAN_CPU_SOFTMAX_INL_HPP
#undef RINGSPAN_CPU_SOFTMAX_INL_HPP
#else
#define RINGSPAN_CPU_SOFTMAX_INL_HPP
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "attention/kernels/cpu_multiply-inl.hpp"
#include "attention/kernels/cpu_panel.hpp"

HWY_BEFORE_NAMESPACE();
namespace ringspan::attention::cpu {
namespace HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// 2^x = power * (1 + rest), where power is a power of two: for x in [-127, 127], and for NaN,
/// which turns up in `rest`. At -127, power is 0.
struct Power {
  Vector power;
  Vector rest;  // 2^fraction - 1 for |fraction| <= 1/2, good to 3e-9 of 2^fraction
};

HWY_INLINE Power split_power(Vector x) {
  const hn::RebindToSigned<Floats> integers;
  const Vector magic = hn::Set(kFloats, 12582912.0f);  // 1.5 * 2^23: adding it rounds to integers
  const Vector rounded = hn::Add(x, magic);
  const Vector f = hn::Sub(x, hn::Sub(rounded, magic));
  // Minimax polynomial of (2^f - 1) / f, computed for this file; the leading coefficients were
  // rounded to fp32 before the others were fitted.
  Vector p = hn::Set(kFloats, 1.53264715e-4f);
  p = hn::MulAdd(p, f, hn::Set(kFloats, 1.33908074e-3f));
  p = hn::MulAdd(p, f, hn::Set(kFloats, 9.61850584e-3f));
  p = hn::MulAdd(p, f, hn::Set(kFloats, 5.55035993e-2f));
  p = hn::MulAdd(p, f, hn::Set(kFloats, 2.40226477e-1f));
  p = hn::MulAdd(p, f, hn::Set(kFloats, 6.93147182e-1f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, rounded));
  const auto one = hn::BitCast(integers, hn::Set(kFloats, 1.0f));
  return {hn::BitCast(kFloats, hn::Add(exponent, one)), hn::Mul(p, f)};
}

/// 2^x for x <= 127: exactly 1 at 0, exactly 0 below -126, where fp32 has no normal numbers, and
/// NaN for NaN (which Max might lose).
HWY_INLINE Vector exp2(Vector x) {
  const auto underflows = hn::Lt(x, hn::Set(kFloats, -126.0f));
  const auto [power, rest] = split_power(hn::IfThenElse(underflows, hn::Set(kFloats, -127.0f), x));
  return hn::MulAdd(power, rest, power);
}

/// tanh(x) = t / (t + 2) with t = e^2|x| - 1, computed so that small x keep their relative
/// accuracy.
HWY_INLINE Vector tanh(Vector x) {
  const Vector twice = hn::Mul(hn::Abs(x), hn::Set(kFloats, 2.88539008f));  // 2 log2(e)
  const Vector highest = hn::Set(kFloats, 40.0f);
  const auto [power, rest] = split_power(hn::IfThenElse(hn::Gt(twice, highest), highest, twice));
  const Vector t = hn::MulAdd(power, rest, hn::Sub(power, hn::Set(kFloats, 1.0f)));
  return hn::CopySign(hn::Div(t, hn::Add(t, hn::Set(kFloats, 2.0f))), x);
}

/// logits = cap * tanh(logits / cap)
inline void cap_logits(const Panel& panel) {
  const Vector cap = hn::Set(kFloats, *panel.cap);
  const Vector inverse = hn::Set(kFloats, 1.0f / *panel.cap);
  for (std::int64_t i = 0; i < panel.keys * panel.width; i += kLanes) {
    float* logit = panel.weights + i;
    hn::StoreU(hn::Mul(cap, tanh(hn::Mul(hn::LoadU(kFloats, logit), inverse))), kFloats, logit);
  }
}

/// Maximum over the keys of the lanes from j on. Four chains hide the latency.
HWY_INLINE Vector column_maximum(const Panel& panel, std::int64_t j) {
  const float* column = panel.weights + j;
  const Vector lowest = hn::Set(kFloats, -kInfinity);
  Vector a = lowest, b = lowest, c = lowest, d = lowest;
  std::int64_t key = 0;
  for (; key + 4 <= panel.keys; key += 4, column += 4 * panel.width) {
    a = hn::Max(a, hn::LoadU(kFloats, column));
    b = hn::Max(b, hn::LoadU(kFloats, column + panel.width));
    c = hn::Max(c, hn::LoadU(kFloats, column + 2 * panel.width));
    d = hn::Max(d, hn::LoadU(kFloats, column + 3 * panel.width));
  }
  for (; key < panel.keys; ++key, column += panel.width) {
    a = hn::Max(a, hn::LoadU(kFloats, column));
  }
  return hn::Max(hn::Max(a, b), hn::Max(c, d));
}

/// Turns logits into weights 2^(logit - max) against the new maximum; carries max and sum on and
/// leaves in `decay` what the old sum and output are worth now. The sum runs in key order from the
/// decayed old one, as the product with V does: with V = 1 both are the same number.
inline void softmax(const ForwardPanel& panel) {
  for (std::int64_t j = 0; j < panel.width; j += kLanes) {
    const Vector old_max = hn::LoadU(kFloats, panel.max + j);
    const Vector max = hn::Max(old_max, column_maximum(panel, j));
    // Rows that have seen nothing yet: -inf - -inf would be NaN.
    const Vector shift = hn::IfThenZeroElse(hn::Eq(max, hn::Set(kFloats, -kInfinity)), max);
    const Vector decay = exp2(hn::Sub(old_max, shift));
    Vector sum = hn::Mul(hn::LoadU(kFloats, panel.sum + j), decay);
    float* weight = panel.weights + j;
    for (std::int64_t key = 0; key < panel.keys; ++key, weight += panel.width) {
      const Vector p = exp2(hn::Sub(hn::LoadU(kFloats, weight), shift));
      sum = hn::Add(sum, p);
      hn::StoreU(p, kFloats, weight);
    }
    // Max may lose a NaN, but the sum has it; a maximum of -inf would mean that nothing was seen.
    hn::StoreU(hn::IfThenElse(hn::Eq(sum, sum), max, sum), kFloats, panel.max + j);
    hn::StoreU(sum, kFloats, panel.sum + j);
    hn::StoreU(decay, kFloats, panel.decay + j);
  }
}

/// Turns logits into weights p = 2^(logit - lse), and d_weights, which come in as d_out.v, into
/// d_logits = scale * p * (d_out.v - delta), times 1 - tanh^2 for capped logits. lse is rounded, by
/// any amount where logits are huge; p is at most 1 all the same.
template <bool kCapped>
inline void softmax_gradient(const BackwardPanel& panel) {
  const Vector scale = hn::Set(kFloats, panel.scale);
  const Vector inverse_cap = hn::Set(kFloats, kCapped ? 1.0f / *panel.cap : 0.0f);
  for (std::int64_t j = 0; j < panel.width; j += kLanes) {
    const Vector lse = hn::LoadU(kFloats, panel.lse + j);
    const Vector delta = hn::LoadU(kFloats, panel.delta + j);
    float* weight = panel.weights + j;
    float* d_weight = panel.d_weights + j;
    for (std::int64_t key = 0; key < panel.keys; ++key) {
      const Vector logit = hn::LoadU(kFloats, weight);
      const Vector x = hn::Sub(logit, lse);
      const Vector p = exp2(hn::IfThenZeroElse(hn::Gt(x, hn::Zero(kFloats)), x));
      Vector d_logit = hn::Mul(hn::Mul(p, scale), hn::Sub(hn::LoadU(kFloats, d_weight), delta));
      if constexpr (kCapped) {
        const Vector t = hn::Mul(logit, inverse_cap);
        const Vector slope = hn::NegMulAdd(t, t, hn::Set(kFloats, 1.0f));
        d_logit = hn::Mul(d_logit, slope);
      }
      hn::StoreU(p, kFloats, weight);
      hn::StoreU(d_logit, kFloats, d_weight);
      weight += panel.width;
      d_weight += panel.width;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::attention::cpu
HWY_AFTER_NAMESPACE();

#endif
