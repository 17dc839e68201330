// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ringspan::bench {
namespace {

constexpr double kSigmaPerDeviation = 1.4826;  // of a normal distribution: 1 / Phi^-1(3/4)
constexpr std::size_t kFewestForNoise = 3;  // two values are always equally far from their median

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  std::vector<double> values(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) values[i] = a[i] - b[i];
  return values;
}

std::vector<double> ratios(std::span<const double> a, std::span<const double> b) {
  std::vector<double> values(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) values[i] = a[i] / b[i];
  return values;
}

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double at = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double median_difference(std::span<const double> a, std::span<const double> b) {
  return median(differences(a, b));
}

double noise(std::span<const double> a, std::span<const double> b) {
  std::vector<double> deviations = differences(a, b);
  const double center = median(deviations);
  for (double& value : deviations) value = std::abs(value - center);
  return kSigmaPerDeviation * median(deviations);
}

Metrics metrics(const Times& times, std::int64_t ranks) {
  Metrics m;
  m.median = median(times.overlapped);
  m.p10 = quantile(times.overlapped, 0.1);
  m.p90 = quantile(times.overlapped, 0.9);
  m.compute = median(times.compute);
  m.synchronised = median(times.synchronised);
  m.communication = median(times.communication);

  // C and S differ in waiting alone: in C nobody waits, in S the ranks wait for each other's empty
  // messages. What waiting adds is what uneven work costs.
  m.imbalance = median_difference(times.synchronised, times.compute);

  // S and O differ in the bytes alone: what O takes longer is communication that nothing hid, and
  // compute that the moving bytes slowed down. It may be negative, by noise.
  m.exposed = median_difference(times.overlapped, times.synchronised);
  m.exposed_share = m.exposed / m.median;

  // Without any overlap the pass would take S + M.
  m.serial_share = m.communication / (m.synchronised + m.communication);

  const double kernels = times.kernel_compute.empty() ? 0 : median(times.kernel_compute);
  if (kernels > 0) m.compute_slowdown = median(times.kernel_overlapped) / kernels;

  // The three below divide by M. They would say nothing where M drowns in the noise of O - S (or
  // that is not known), where it is below 1 % of O, or on one rank, whose M is packing alone.
  if (ranks == 1 || (!times.exact && times.overlapped.size() < kFewestForNoise)) return m;
  const double least = std::max(3 * noise(times.overlapped, times.synchronised), 0.01 * m.median);
  if (m.communication >= least) {
    m.hidden = 1 - m.exposed / m.communication;
    if (!times.hideable.empty()) m.hideable = median(ratios(times.hideable, times.communication));
  }

  // 1: O = max(S, M), all that can overlap does; 0: O = S + M, nothing does; below 0: harmful.
  const double shorter = std::min(m.synchronised, m.communication);
  if (shorter >= least) {
    m.overlap_efficiency = (m.synchronised + m.communication - m.median) / shorter;
  }
  return m;
}

double strong_efficiency(double one_rank_seconds, int ranks, double seconds) {
  return one_rank_seconds / (ranks * seconds);
}

double weak_efficiency(double one_rank_tflops, double tflops_per_rank) {
  return tflops_per_rank / one_rank_tflops;
}

}  // namespace ringspan::bench
