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

/// The lanes first .. end - 1 that see a key.
struct Lanes {
  std::int64_t first, end;
};

inline Lanes lanes_seeing(const PanelExtent& panel, std::int64_t key) {
  return {std::max<std::int64_t>(key - panel.hi, 0), std::min(key - panel.lo + 1, panel.queries)};
}

inline bool all_see(const PanelExtent& panel, std::int64_t key) {
  const Lanes lanes = lanes_seeing(panel, key);
  return lanes.first == 0 && lanes.end == panel.queries;
}

/// Of the vector of lanes that starts with lane j, those that belong to `lanes`.
HWY_INLINE hn::Mask<Floats> among(const Lanes& lanes, std::int64_t j) {
  const Vector lane = hn::Iota(kFloats, static_cast<float>(j));
  return hn::And(hn::Ge(lane, hn::Set(kFloats, static_cast<float>(lanes.first))),
                 hn::Lt(lane, hn::Set(kFloats, static_cast<float>(lanes.end))));
}

/// Sets what lies outside of the band in values[keys][width].
inline void mask(const PanelExtent& panel, float* values, float masked) {
  for (std::int64_t key = 0; key < panel.keys; ++key) {
    if (all_see(panel, key)) continue;
    const Lanes lanes = lanes_seeing(panel, key);
    for (std::int64_t j = 0; j < panel.width; j += kLanes) {
      float* value = values + key * panel.width + j;
      hn::StoreU(
          hn::IfThenElse(among(lanes, j), hn::LoadU(kFloats, value), hn::Set(kFloats, masked)),
          kFloats, value);
    }
  }
}

/// Packed rows, of keys or of queries.
struct PackedMatrix {
  const float* data;
  std::int64_t columns, stride;
  const float* row(std::int64_t i) const { return data + i * stride; }
};

inline bool finite(const PackedMatrix& x, std::int64_t row) {
  Vector zeros = hn::Zero(kFloats);
  for (std::int64_t d = 0; d < x.columns; d += kLanes) {
    const auto inside = hn::FirstN(kFloats, static_cast<std::size_t>(x.columns - d));
    const Vector value = hn::IfThenElseZero(inside, hn::LoadU(kFloats, x.row(row) + d));
    zeros = hn::Or(zeros, hn::Sub(value, value));  // NaN for infinities, too
  }
  return hn::AllTrue(kFloats, hn::Eq(zeros, hn::Zero(kFloats)));
}

/// c[columns of x][width] = start + sum over keys of x(key, column) weights(key, lane), where
/// weights outside of the band are zero.
inline void sum_over_keys(const PanelExtent& panel, const PackedMatrix& x, const float* weights,
                          float* c, Start start, const float* factor) {
  Product product = {panel.keys, x.data,      x.stride, weights, panel.width,
                     c,          panel.width, start,    factor};
  bool harmless = true;
  for (std::int64_t key = 0; key < panel.keys && harmless; ++key) {
    harmless = all_see(panel, key) || finite(x, key);
  }
  if (!harmless) product.depth = 0;
  multiply<Contiguous::row>(x.columns, panel.width, product);
  if (harmless) return;
  for (std::int64_t key = 0; key < panel.keys; ++key) {
    for (std::int64_t j = 0; j < panel.width; j += kLanes) {
      const auto seen = among(lanes_seeing(panel, key), j);
      const Vector weight = hn::LoadU(kFloats, weights + key * panel.width + j);
      for (std::int64_t d = 0; d < x.columns; ++d) {
        float* sum = c + d * panel.width + j;
        const Vector old = hn::LoadU(kFloats, sum);
        const Vector left = hn::Set(kFloats, x.row(key)[d]);
        hn::StoreU(hn::IfThenElse(seen, hn::MulAdd(left, weight, old), old), kFloats, sum);
      }
    }
  }
}

/// c[keys][stride of x] += sum over lanes of weights(key, lane) x(lane, column), where weights
/// outside of the band are zero.
inline void sum_over_lanes(const PanelExtent& panel, const PackedMatrix& x, const float* weights,
                           float* c) {
  const auto sum = [&](std::int64_t key, std::int64_t keys, const Lanes& lanes) HWY_ATTR {
    multiply<Contiguous::depth>(
        keys, x.stride,
        {lanes.end - lanes.first, weights + key * panel.width + lanes.first, panel.width,
         x.row(lanes.first), x.stride, c + key * x.stride, x.stride, Start::held, nullptr});
  };
  bool harmless = true, masked = false;
  for (std::int64_t key = 0; key < panel.keys; ++key) masked = masked || !all_see(panel, key);
  for (std::int64_t i = 0; masked && i < panel.queries; ++i) harmless = harmless && finite(x, i);
  if (harmless) return sum(0, panel.keys, {0, panel.queries});
  for (std::int64_t key = 0; key < panel.keys; ++key) sum(key, 1, lanes_seeing(panel, key));
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::attention::cpu
HWY_AFTER_NAMESPACE();

#endif
