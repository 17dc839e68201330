// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace ringspan::comm {

/// A sum that has the same bits in whatever order, and in whatever parts, its terms are added
/// (after Demmel and Nguyen, Parallel Reproducible Summation, 2015). Terms are cut into digits of
/// 32 bits on a grid that is the same for all sums: digit i counts multiples of 2^(32 i). Kept are
/// the highest digit that any term has reached and the one below it, as integers, so additions are
/// exact; what is lower is rounded off each term, at least 31 bits below the largest one. For 2^23
/// terms at least. What is not finite, or 2^1023 and more, makes the sum NaN.
/// All bits zero is no term at all.
class ReproducibleSum {
 public:
  void add(double term) {
    if (!(std::abs(term) < kLargest)) {
      level_ = kNotFinite;
    } else if (std::abs(term) >= kSmallest && level_ != kNotFinite) {
      raise_to((exponent(term) - 31) >> 5);
      const double scaled = term * power(-32 * (digit() + 1));  // at most 2^31
      const double upper = rounded(scaled);
      high_ += static_cast<std::int64_t>(upper);
      low_ += static_cast<std::int64_t>(rounded((scaled - upper) * 0x1p32));
    }
  }

  void add(ReproducibleSum other) {
    if (other.level_ == kEmpty || level_ == kNotFinite) return;
    if (level_ == kEmpty || other.level_ == kNotFinite) {
      *this = other;
      return;
    }
    raise_to(other.digit());
    other.raise_to(digit());
    high_ += other.high_;
    low_ += other.low_;
  }
  ReproducibleSum& operator+=(const ReproducibleSum& other) {
    add(other);
    return *this;
  }

  /// Times 2^(-32 digits), exactly. What falls below 2^-960 is no term any more.
  void scale_down(double digits) {
    if (level_ == kEmpty || level_ == kNotFinite) return;
    const double scaled = digit() - digits;
    if (scaled < kLowestDigit) {
      *this = {};
    } else {
      level_ = static_cast<std::int8_t>(level_ - static_cast<int>(digits));
    }
  }

  double value() const {
    if (level_ == kEmpty) return 0;
    if (level_ == kNotFinite) return std::numeric_limits<double>::quiet_NaN();
    return std::ldexp(static_cast<double>(high_), 32 * (digit() + 1)) +
           std::ldexp(static_cast<double>(low_), 32 * digit());
  }

  /// True if no term was as large as 2^(32 digit).
  bool below(int limit) const {
    return level_ == kEmpty || (level_ != kNotFinite && digit() + 1 < limit);
  }

 private:
  static constexpr std::int8_t kEmpty = 0, kNotFinite = 127;
  static constexpr int kLowestDigit = -31;
  static constexpr double kSmallest = 0x1p-960, kLargest = 0x1p1023;

  // The lower one of the two that are kept.
  int digit() const { return level_ - 64; }

  // Of normal numbers, without the calls into the C library that take most of the time.
  static int exponent(double value) {
    return static_cast<int>((std::bit_cast<std::uint64_t>(value) >> 52) & 0x7ff) - 1023;
  }
  static double power(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
  // To the nearest integer, ties to even; the spacing of doubles at 1.5 * 2^52 is 1.
  static double rounded(double value) { return (value + 0x1.8p52) - 0x1.8p52; }

  // A term whose own digits are lower than those kept has no part in them but its highest one in
  // the lower of them: so what is kept is what would be, had the highest term come first.
  void raise_to(int new_digit) {
    if (level_ != kEmpty && new_digit <= digit()) return;
    low_ = level_ != kEmpty && new_digit == digit() + 1 ? std::int64_t{high_} : 0;
    high_ = 0;
    level_ = static_cast<std::int8_t>(new_digit + 64);
  }

  std::int64_t low_ = 0;
  std::int64_t high_ : 56 = 0;
  std::int64_t level_ : 8 = kEmpty;  // 64 more than digit(), or one of the above
};
static_assert(sizeof(ReproducibleSum) == 16);

}  // namespace ringspan::comm
