// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "attention/tensor.hpp"

namespace ringspan::attention {

/// Elements of DType::bf16 and DType::f16, for the host: storage and conversion, no arithmetic.
/// Conversions round to nearest, ties to even; subnormals, infinities and NaN included. They are
/// free of branches, so that compilers can vectorise loops over them.
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

constexpr float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr float widen(F16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  return std::bit_cast<float>(
      sign | (magnitude >= 0x7c00u ? special : (magnitude < 0x0400u ? subnormal : normal)));
}

constexpr float widen(float value) { return value; }
constexpr double widen(double value) { return value; }

constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x0040u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

constexpr F16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // The spacing of floats in [0.5, 1) is that of subnormal halves, 2^-24: the addition rounds.
  const std::uint32_t small = magnitude < 0x38800000u ? magnitude : 0u;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5f) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  const std::uint32_t large = magnitude > 0x7f800000u ? nan : 0x7c00u;
  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return {static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000u ? large : finite))};
}

/// Rounds to odd: a later rounding to a narrower type then gives what rounding once would give.
constexpr float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  const bool away = (nearest > value) == (value > 0);  // from zero
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (away ? 1u : 0u)) | 1u);
}

/// Any element type to any other, rounded once.
template <typename To, typename From>
constexpr To convert(From value) {
  const auto wide = widen(value);
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(wide);
  } else if constexpr (std::is_same_v<decltype(wide), const double>) {
    return convert<To>(to_odd(wide));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(wide);
  } else {
    return to_f16(wide);
  }
}

/// Calls visitor(std::type_identity<Element>{}) with the host's type for `dtype`.
template <typename Visitor>
constexpr decltype(auto) with_element(DType dtype, const Visitor& visitor) {
  switch (dtype) {
    case DType::f64: return visitor(std::type_identity<double>{});
    case DType::bf16: return visitor(std::type_identity<Bf16>{});
    case DType::f16: return visitor(std::type_identity<F16>{});
    case DType::f32:
    case DType::reproducible: break;  // sums of many values, which only movement has to do with
  }
  return visitor(std::type_identity<float>{});
}

/// One element of host memory, `offset` elements from `data`.
inline double load(const void* data, DType dtype, std::int64_t offset) {
  return with_element(dtype, [&]<typename Element>(std::type_identity<Element>) -> double {
    return widen(static_cast<const Element*>(data)[offset]);
  });
}

inline void store(void* data, DType dtype, std::int64_t offset, double value) {
  with_element(dtype, [&]<typename Element>(std::type_identity<Element>) {
    static_cast<Element*>(data)[offset] = convert<Element>(value);
  });
}

}  // namespace ringspan::attention
