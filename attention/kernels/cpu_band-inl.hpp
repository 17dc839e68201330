// SPDX-License-Identifier: Apache-2.0
// Which lanes of a panel see which of its keys, and the products that sum over keys or over lanes.
// A weight of zero keeps out what is not seen, but not infinities and NaN: where a panel has any,
// its products run over exactly what is seen. Included once for every instruction set.
#if defined(RINGSPAN_CPU_BAND_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGSPAN_CPU_BAND_INL_HPP
#undef RINGSPAN_CPU_BAND_INL_HPP
#else
#define RINGSPAN_CPU_BAND_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include "attention/kernels/cpu_multiply-inl.hpp"
#include "attention/kernels/cpu_panel.hpp"

HWY_BEFORE_NAMESPACE();
namespace ringspan::attention::cpu {
namespace HWY_NAMESPACE {

/// Lanes, or keys, first .. end - 1.
struct Range {
  std::int64_t first, end;
};

inline Range lanes_seeing(const PanelExtent& panel, std::int64_t key) {
  return {std::max<std::int64_t>(key - panel.hi, 0), std::min(key - panel.lo + 1, panel.queries)};
}

/// Calls each(key) for the keys that some lanes see and others do not: those in front of and behind
/// the ones that all see.
template <typename Each>
HWY_INLINE void for_each_partly_seen(const PanelExtent& panel, const Each& each) {
  const std::int64_t end = std::min(panel.hi + 1, panel.keys);
  const std::int64_t first = std::min(panel.lo + panel.queries - 1, end);
  for (std::int64_t key = 0; key < first; ++key) each(key);
  for (std::int64_t key = std::max<std::int64_t>(end, 0); key < panel.keys; ++key) each(key);
}

/// Of the vector of lanes that starts with lane j, those in `lanes`.
HWY_INLINE hn::Mask<Floats> among(const Range& lanes, std::int64_t j) {
  const Vector lane = hn::Iota(kFloats, static_cast<float>(j));
  return hn::And(hn::Ge(lane, hn::Set(kFloats, static_cast<float>(lanes.first))),
                 hn::Lt(lane, hn::Set(kFloats, static_cast<float>(lanes.end))));
}

/// Sets what lies outside of the band in values[keys][width].
inline void mask(const PanelExtent& panel, float* values, float masked) {
  for_each_partly_seen(panel, [&](std::int64_t key) HWY_ATTR {
    const Range lanes = lanes_seeing(panel, key);
    float* value = values + key * panel.width;
    for (std::int64_t j = 0; j < panel.width; j += kLanes) {
      const Vector kept = hn::LoadU(kFloats, value + j);
      hn::StoreU(hn::IfThenElse(among(lanes, j), kept, hn::Set(kFloats, masked)), kFloats,
                 value + j);
    }
  });
}

/// Packed rows, of keys or of queries, with zeros from the last column up to the stride.
struct PackedMatrix {
  const float* data;
  std::int64_t columns, stride;
  const float* row(std::int64_t i) const { return data + i * stride; }
};

/// Zeros if all of the row is finite; somewhere NaN if not.
HWY_INLINE Vector zero_if_finite(const PackedMatrix& x, std::int64_t row) {
  Vector zeros = hn::Zero(kFloats);
  for (std::int64_t d = 0; d < x.stride; d += kLanes) {
    const Vector value = hn::LoadU(kFloats, x.row(row) + d);
    zeros = hn::Or(zeros, hn::Sub(value, value));
  }
  return zeros;
}

HWY_INLINE bool all_zero(Vector x) { return hn::AllTrue(kFloats, hn::Eq(x, hn::Zero(kFloats))); }

/// c[columns of x][width] = start + sum over keys of x(key, column) weights(key, lane), where
/// weights outside of the band are zero.
inline void sum_over_keys(const PanelExtent& panel, const PackedMatrix& x, const float* weights,
                          float* c, Start start, const float* factor) {
  Product product = {panel.keys, x.data,      x.stride, weights, panel.width,
                     c,          panel.width, start,    factor};
  Vector zeros = hn::Zero(kFloats);
  for_each_partly_seen(
      panel, [&](std::int64_t key) HWY_ATTR { zeros = hn::Or(zeros, zero_if_finite(x, key)); });
  const bool zero_weights_do = all_zero(zeros);
  if (!zero_weights_do) product.depth = 0;  // for the start alone
  multiply<Contiguous::row>(x.columns, panel.width, product);
  if (zero_weights_do) return;
  for (std::int64_t key = 0; key < panel.keys; ++key) {
    for (std::int64_t j = 0; j < panel.width; j += kLanes) {
      const auto seen = among(lanes_seeing(panel, key), j);
      const Vector weight = hn::LoadU(kFloats, weights + key * panel.width + j);
      for (std::int64_t d = 0; d < x.columns; ++d) {
        float* sum = c + d * panel.width + j;
        const Vector old = hn::LoadU(kFloats, sum);
        const Vector added = hn::MulAdd(hn::Set(kFloats, x.row(key)[d]), weight, old);
        hn::StoreU(hn::IfThenElse(seen, added, old), kFloats, sum);
      }
    }
  }
}

/// c[keys][stride of x] += sum over lanes of weights(key, lane) x(lane, column), where weights
/// outside of the band are zero.
inline void sum_over_lanes(const PanelExtent& panel, const PackedMatrix& x, const float* weights,
                           float* c) {
  const auto sum = [&](std::int64_t key, std::int64_t keys, const Range& lanes) HWY_ATTR {
    multiply<Contiguous::depth>(
        keys, x.stride,
        {lanes.end - lanes.first, weights + key * panel.width + lanes.first, panel.width,
         x.row(lanes.first), x.stride, c + key * x.stride, x.stride, Start::held, nullptr});
  };
  bool masked = false;
  for_each_partly_seen(panel, [&](std::int64_t) { masked = true; });
  Vector zeros = hn::Zero(kFloats);
  for (std::int64_t i = 0; masked && i < panel.queries; ++i) {
    zeros = hn::Or(zeros, zero_if_finite(x, i));
  }
  if (all_zero(zeros)) return sum(0, panel.keys, {0, panel.queries});
  for (std::int64_t key = 0; key < panel.keys; ++key) sum(key, 1, lanes_seeing(panel, key));
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::attention::cpu
HWY_AFTER_NAMESPACE();

#endif
