// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/metrics.hpp"

#include <gtest/gtest.h>

#include "bench/run/step_clock.hpp"

namespace ringspan::bench {
namespace {

/// Ten quiet iterations: C 1.0, S 1.2, M 0.5, O as given.
Times quiet(double overlapped) {
  Times times;
  times.compute.assign(10, 1.0);
  times.synchronised.assign(10, 1.2);
  times.communication.assign(10, 0.5);
  times.overlapped.assign(10, overlapped);
  times.kernel_compute.assign(10, 2.0);
  times.kernel_overlapped.assign(10, 2.2);
  times.hideable.assign(10, 0.4);
  return times;
}

TEST(QuantileTest, InterpolatesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.1), 1);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
  EXPECT_DOUBLE_EQ(median({9, 1, 5}), 5);
}

TEST(MetricsTest, PairedDifferencesIgnoreDrift) {
  const std::vector<double> a{1.5, 2.5, 13.5}, b{1, 2, 13};
  EXPECT_DOUBLE_EQ(median_difference(a, b), 0.5);
  EXPECT_DOUBLE_EQ(noise(a, b), 0);
  EXPECT_NEAR(noise(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>(5, 0.0)), 1.4826,
              1e-12);
}

TEST(MetricsTest, FollowTheFormulas) {
  const Metrics m = metrics(quiet(1.5), 2);
  EXPECT_DOUBLE_EQ(m.median, 1.5);
  EXPECT_DOUBLE_EQ(m.compute, 1.0);
  EXPECT_DOUBLE_EQ(m.synchronised, 1.2);
  EXPECT_DOUBLE_EQ(m.communication, 0.5);
  EXPECT_NEAR(m.imbalance, 0.2, 1e-12);
  EXPECT_NEAR(m.exposed, 0.3, 1e-12);
  EXPECT_NEAR(m.serial_share, 0.5 / 1.7, 1e-12);
  EXPECT_NEAR(m.exposed_share, 0.2, 1e-12);
  EXPECT_NEAR(m.hidden.value(), 0.4, 1e-12);
  EXPECT_NEAR(m.hideable.value(), 0.8, 1e-12);
  EXPECT_NEAR(m.overlap_efficiency.value(), 0.4, 1e-12);
  EXPECT_NEAR(m.compute_slowdown.value(), 1.1, 1e-12);
}

TEST(MetricsTest, PerfectAndNoAndHarmfulOverlap) {
  EXPECT_NEAR(metrics(quiet(1.2), 2).overlap_efficiency.value(), 1, 1e-12);
  EXPECT_NEAR(metrics(quiet(1.2), 2).hidden.value(), 1, 1e-12);
  EXPECT_NEAR(metrics(quiet(1.7), 2).overlap_efficiency.value(), 0, 1e-12);
  EXPECT_NEAR(metrics(quiet(1.7), 2).hidden.value(), 0, 1e-12);
  EXPECT_LT(metrics(quiet(2.0), 2).overlap_efficiency.value(), 0);  // not clamped
  EXPECT_LT(metrics(quiet(2.0), 2).hidden.value(), 0);
}

TEST(MetricsTest, SayNothingOfCommunicationThatDrownsInNoise) {
  Times small = quiet(1.5);
  small.communication.assign(10, 0.0149);  // below 1 % of O
  EXPECT_FALSE(metrics(small, 2).hidden);
  EXPECT_FALSE(metrics(small, 2).hideable);
  EXPECT_FALSE(metrics(small, 2).overlap_efficiency);
  small.communication.assign(10, 0.0151);
  EXPECT_TRUE(metrics(small, 2).hidden);

  Times noisy = quiet(1.5);
  for (int i = 0; i < 10; ++i) noisy.overlapped[i] += 0.1 * (i - 4.5);  // noise 0.37, 3 x noise > M
  EXPECT_FALSE(metrics(noisy, 2).hidden);
}

TEST(MetricsTest, SayNothingOfHidingOnOneRankOrWithoutAnEstimateOfNoise) {
  const auto says = [](const Metrics& m) {
    return m.hidden.has_value() || m.hideable.has_value() || m.overlap_efficiency.has_value();
  };
  Times times = quiet(1.5);
  EXPECT_FALSE(says(metrics(times, 1)));
  EXPECT_TRUE(metrics(times, 1).compute_slowdown);
  for (const std::size_t repeats : {3, 2, 1}) {
    for (auto* values : {&times.compute, &times.synchronised, &times.communication,
                         &times.overlapped, &times.hideable}) {
      values->resize(repeats);
    }
    EXPECT_EQ(says(metrics(times, 2)), repeats == 3) << repeats;
  }
}

TEST(MetricsTest, NoKernelsNoSlowdown) {
  Times times = quiet(1.5);
  times.kernel_compute.assign(10, 0.0);
  EXPECT_FALSE(metrics(times, 2).compute_slowdown);
}

TEST(MetricsTest, HideableIsBoundedStepByStep) {
  const std::vector<Step> communication{{1.0, 0}, {2.0, 0}, {0.0, 0}},
      compute{{0, 3.0}, {0, 0.5}, {0, 4.0}};
  EXPECT_DOUBLE_EQ(hideable_seconds(communication, compute), 1.5);
  EXPECT_DOUBLE_EQ(hideable_seconds({}, {}), 0);
}

TEST(MetricsTest, HideableIsAShareOfItsOwnIteration) {
  Times times = quiet(1.5);
  times.communication.back() = times.hideable.back() =
      50;  // one slow iteration, all of it hideable
  EXPECT_DOUBLE_EQ(metrics(times, 2).hideable.value(), 0.8);
  times.hideable = times.communication;
  EXPECT_DOUBLE_EQ(metrics(times, 2).hideable.value(), 1);
}

TEST(MetricsTest, EfficienciesCompareWithIndependentRanks) {
  EXPECT_DOUBLE_EQ(strong_efficiency(8, 4, 2), 1);
  EXPECT_DOUBLE_EQ(strong_efficiency(8, 4, 4), 0.5);
  EXPECT_DOUBLE_EQ(weak_efficiency(0.1, 0.09), 0.9);
}

TEST(StepClockTest, CutsAPassAtEveryWait) {
  StepClock clock;
  clock.computed(5);  // nothing in flight: nothing to hide
  clock.posted(0.1);
  clock.computed(1);
  clock.posted(0.2);
  clock.computed(2);
  clock.waited(0.3);
  clock.computed(4);  // the second message is still in flight
  clock.waited(0.4);
  clock.computed(8);
  ASSERT_EQ(clock.steps().size(), 2u);
  EXPECT_DOUBLE_EQ(clock.steps()[0].message_seconds, 0.1 + 0.2 + 0.3);
  EXPECT_DOUBLE_EQ(clock.steps()[0].kernel_seconds, 3);
  EXPECT_DOUBLE_EQ(clock.steps()[1].message_seconds, 0.4);
  EXPECT_DOUBLE_EQ(clock.steps()[1].kernel_seconds, 4);
  EXPECT_DOUBLE_EQ(clock.kernel_seconds(), 20);
  clock.reset();
  EXPECT_TRUE(clock.steps().empty());
}

}  // namespace
}  // namespace ringspan::bench
