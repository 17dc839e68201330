// SPDX-License-Identifier: Apache-2.0
#include "bench/fma_peak.hpp"

#include <algorithm>
#include <chrono>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_peak.cpp"
#include "hwy/foreach_target.h"
// The order matters.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringspan::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains hide the latency of two units and fit sixteen registers. They start from distinct
// values: equal chains would be merged by the compiler, and the peak would come out too high.
double multiply_adds(int repeats, float* result) {
  const hn::ScalableTag<float> tag;
  auto a = hn::Set(tag, 1.0f), b = hn::Set(tag, 1.1f), c = hn::Set(tag, 1.2f);
  auto d = hn::Set(tag, 1.3f), e = hn::Set(tag, 1.4f), f = hn::Set(tag, 1.5f);
  auto g = hn::Set(tag, 1.6f), h = hn::Set(tag, 1.7f), i = hn::Set(tag, 1.8f);
  auto j = hn::Set(tag, 1.9f), k = hn::Set(tag, 2.0f), l = hn::Set(tag, 2.1f);
  const auto factor = hn::Set(tag, 0.999f), term = hn::Set(tag, 0.1f);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    a = hn::MulAdd(a, factor, term), b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term), d = hn::MulAdd(d, factor, term);
    e = hn::MulAdd(e, factor, term), f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term), h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term), j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term), l = hn::MulAdd(l, factor, term);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, d)), hn::Add(hn::Add(e, f), hn::Add(g, h)));
  *result = hn::GetLane(hn::Add(sum, hn::Add(hn::Add(i, j), hn::Add(k, l))));
  return 12.0 * static_cast<double>(hn::Lanes(tag)) * repeats;
}

}  // namespace HWY_NAMESPACE
}  // namespace ringspan::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringspan::bench {

HWY_EXPORT(multiply_adds);

namespace {

using Clock = std::chrono::steady_clock;

double elapsed(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// GFLOP of one loop: a fraction of a millisecond, so that some loop is undisturbed.
double loop_gflop() {
  constexpr int kRepeats = 100'000;
  float result = 0;
  const double count = HWY_DYNAMIC_DISPATCH(multiply_adds)(kRepeats, &result);
  return result > 0 ? 2e-9 * count : 0;  // the sum is positive, and so the loop cannot be left out
}

}  // namespace

double fma_peak_gflops(double seconds) {
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto loop = Clock::now();
    const double gflop = loop_gflop();
    best = std::max(best, gflop / elapsed(loop));
  } while (elapsed(start) < seconds);
  return best;
}

double multiply_add_seconds(double gflop) {
  const auto start = Clock::now();
  for (double done = 0; done < gflop;) done += loop_gflop();
  return elapsed(start);
}

}  // namespace ringspan::bench
#endif
