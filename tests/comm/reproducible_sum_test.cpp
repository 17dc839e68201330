// SPDX-License-Identifier: Apache-2.0
#include "comm/reproducible_sum.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ringspan::comm {
namespace {

/// Of magnitudes that differ by up to 2^spread, and of both signs.
std::vector<double> random_terms(int count, int spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> exponent(-spread, 0);
  std::normal_distribution<double> fraction;
  std::vector<double> terms(count);
  for (double& term : terms) term = std::ldexp(fraction(random), exponent(random));
  return terms;
}

ReproducibleSum sum_of(const std::vector<double>& terms) {
  ReproducibleSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

bool same_bits(const ReproducibleSum& a, const ReproducibleSum& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(ReproducibleSumTest, HasTheSameBitsInEveryOrderAndInEveryParts) {
  std::mt19937_64 random(7);
  for (const int spread : {0, 20, 60, 200, 900}) {
    for (int seed = 0; seed < 20; ++seed) {
      std::vector<double> terms = random_terms(50, spread, seed);
      terms.push_back(-terms.front());  // what cancels leaves no trace but the digits it reached
      const ReproducibleSum expected = sum_of(terms);
      for (int again = 0; again < 20; ++again) {
        std::shuffle(terms.begin(), terms.end(), random);
        ReproducibleSum parts[3], whole;
        for (const double term : terms) parts[random() % 3].add(term);
        for (const ReproducibleSum& part : parts) whole.add(part);
        EXPECT_TRUE(same_bits(sum_of(terms), expected)) << "spread " << spread;
        EXPECT_TRUE(same_bits(whole, expected)) << "spread " << spread;
      }
    }
  }
}

TEST(ReproducibleSumTest, IsWithin31BitsOfTheLargestTerm) {
  for (const int spread : {0, 20, 60}) {
    for (int seed = 0; seed < 50; ++seed) {
      const std::vector<double> terms = random_terms(1000, spread, seed);
      long double exact = 0;
      double largest = 0;
      for (const double term : terms) {
        exact += term;
        largest = std::max(largest, std::abs(term));
      }
      const double bound = largest * 0x1p-31 * 1000 / 2;
      EXPECT_LE(std::abs(static_cast<double>(sum_of(terms).value() - exact)), bound);
    }
  }
}

// Millions of equal terms, and the largest and smallest of fp32: nothing wraps.
TEST(ReproducibleSumTest, HoldsAsManyTermsAsItSays) {
  ReproducibleSum sum;
  const double term = std::nextafter(0x1p31, 0);  // nearly fills the upper digit
  sum.add(term);
  for (int doubling = 0; doubling < 23; ++doubling) sum.add(ReproducibleSum(sum));
  EXPECT_NEAR(sum.value() / (term * 0x1p23), 1, 1e-15);
  for (const double extreme : {0x1.fffffep127, 0x1p-149, -0x1p-149}) {
    EXPECT_EQ(sum_of({extreme}).value(), extreme);
  }
}

TEST(ReproducibleSumTest, ScalesByWholeDigitsAsItsTermsDo) {
  for (const int digits : {0, 1, 2, 5}) {
    std::vector<double> terms = random_terms(50, 100, digits);
    ReproducibleSum sum = sum_of(terms);
    sum.scale_down(digits);
    for (double& term : terms) term = std::ldexp(term, -32 * digits);
    EXPECT_TRUE(same_bits(sum, sum_of(terms))) << digits;
  }
}

TEST(ReproducibleSumTest, WhatIsNotFiniteIsInfectious) {
  for (const double poison :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ReproducibleSum sum = sum_of({1, poison, 2}), clean = sum_of({3});
    EXPECT_TRUE(std::isnan(sum.value()));
    clean.add(sum);
    EXPECT_TRUE(std::isnan(clean.value()));
  }
}

TEST(ReproducibleSumTest, NothingIsZeroAndTheIdentity) {
  const ReproducibleSum nothing, sum = sum_of({1.5, -0x1p-40});
  EXPECT_EQ(nothing.value(), 0);
  ReproducibleSum left = nothing, right = sum;
  left.add(sum);
  right.add(nothing);
  EXPECT_TRUE(same_bits(left, sum));
  EXPECT_TRUE(same_bits(right, sum));
}

}  // namespace
}  // namespace ringspan::comm
