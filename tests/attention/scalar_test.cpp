// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/scalar.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace ringspan::attention {
namespace {

/// What a 16-bit pattern means, from the definition of the format.
double meaning(std::uint32_t bits, int mantissa_bits, int bias) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const auto exponent = static_cast<int>((bits & 0x7fffu) >> mantissa_bits);
  const double sign = bits & 0x8000u ? -1 : 1;
  const int largest = (0x7fff >> mantissa_bits);
  if (exponent == largest) return mantissa ? NAN : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1u << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template <typename Half>
void expect_all_patterns(int mantissa_bits, int bias) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const double expected = meaning(bits, mantissa_bits, bias);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widen(half))) << bits;
      ASSERT_TRUE(std::isnan(widen(convert<Half>(widen(half))))) << bits;
      ASSERT_EQ(convert<Half>(widen(half)).bits & 0x8000u, bits & 0x8000u) << bits;
      continue;
    }
    ASSERT_EQ(widen(half), expected) << bits;
    ASSERT_EQ(std::signbit(widen(half)), std::signbit(expected)) << bits;
    ASSERT_EQ(convert<Half>(widen(half)).bits, bits);
    ASSERT_EQ(convert<Half>(expected).bits, bits);
  }
}

TEST(ScalarTest, EveryBf16PatternIsReadAndWritten) { expect_all_patterns<Bf16>(7, 127); }
TEST(ScalarTest, EveryF16PatternIsReadAndWritten) { expect_all_patterns<F16>(10, 15); }

/// Between every two neighbours: the middle goes to the even one, anything off it to the nearer.
template <typename Half>
void expect_rounds_to_nearest_even(std::uint16_t infinity) {
  for (std::uint32_t bits = 0; bits + 1 <= infinity; ++bits) {
    const double below = widen(Half{static_cast<std::uint16_t>(bits)});
    // The value that would follow the largest finite one is where rounding to infinity is judged.
    const double step = bits == 0 ? 0 : below - widen(Half{static_cast<std::uint16_t>(bits - 1)});
    const double above =
        bits + 1 == infinity ? below + step : widen(Half{static_cast<std::uint16_t>(bits + 1)});
    const double middle = below + (above - below) / 2, hair = (above - below) * 0x1p-30;
    const std::uint32_t even = bits + (bits & 1);
    for (const double sign : {1.0, -1.0}) {
      const std::uint32_t negative = sign < 0 ? 0x8000u : 0;
      ASSERT_EQ(convert<Half>(sign * middle).bits, even | negative) << bits;
      ASSERT_EQ(convert<Half>(static_cast<float>(sign * middle)).bits, even | negative) << bits;
      // fp32 cannot hold these two: rounding twice would end at the even one.
      ASSERT_EQ(convert<Half>(sign * (middle - hair)).bits, bits | negative) << bits;
      ASSERT_EQ(convert<Half>(sign * (middle + hair)).bits, (bits + 1) | negative) << bits;
    }
  }
}

TEST(ScalarTest, Bf16RoundsToNearestEven) { expect_rounds_to_nearest_even<Bf16>(0x7f80); }
TEST(ScalarTest, F16RoundsToNearestEven) { expect_rounds_to_nearest_even<F16>(0x7c00); }

TEST(ScalarTest, OverflowAndUnderflowKeepTheSign) {
  EXPECT_EQ(convert<F16>(65519.99).bits, 0x7bff);
  EXPECT_EQ(convert<F16>(65520.0).bits, 0x7c00);
  EXPECT_EQ(convert<F16>(-1e300).bits, 0xfc00);
  EXPECT_EQ(convert<Bf16>(-1e300).bits, 0xff80);
  EXPECT_EQ(convert<Bf16>(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(convert<F16>(-1e-300).bits, 0x8000);
  EXPECT_EQ(convert<Bf16>(1e-300).bits, 0);
  EXPECT_EQ(convert<F16>(0x1p-25f).bits, 0);  // half of the smallest, to even
  EXPECT_EQ(convert<F16>(0x1.8p-25f).bits, 1);
  EXPECT_EQ(convert<float>(1e300), std::numeric_limits<float>::infinity());
}

TEST(ScalarTest, ConversionsAreConstantExpressions) {
  static_assert(convert<Bf16>(1.0f).bits == 0x3f80);
  static_assert(convert<F16>(1.0).bits == 0x3c00);
  static_assert(convert<double>(F16{0x0001}) == 0x1p-24);
}

}  // namespace
}  // namespace ringspan::attention
