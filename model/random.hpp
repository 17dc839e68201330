// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace ringspan::model {

/// Random bits that depend on (seed, index) alone, so that any rank can compute any value of a
/// global tensor, in any order, on any machine. The finaliser of SplitMix64 (Steele, Lea, Flood
/// 2014), applied twice. The bits of one index are a seed for numbers of their own.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + index * 0x9e3779b97f4a7c15u);
}

/// Uniform in [0, 1).
constexpr double random_fraction(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}

/// Uniform in 0 ... bound - 1.
constexpr std::int64_t random_below(std::int64_t bound, std::uint64_t seed, std::uint64_t index) {
  return static_cast<std::int64_t>(random_fraction(seed, index) * static_cast<double>(bound));
}

/// Normal with mean 0 and deviation 1, by Box and Muller.
inline double random_normal(std::uint64_t seed, std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log1p(-random_fraction(seed, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * random_fraction(seed, 2 * index + 1));
}

}  // namespace ringspan::model
