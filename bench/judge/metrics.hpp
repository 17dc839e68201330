// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/run/times.hpp"

namespace ringspan::bench {

/// What the CSV says of one point. Empty: there is nothing to divide by but noise.
struct Metrics {
  double median = 0, p10 = 0, p90 = 0;  // of O
  double compute = 0, synchronised = 0, communication = 0;
  double imbalance = 0, exposed = 0;
  double serial_share = 0, exposed_share = 0;
  std::optional<double> hidden, hideable, overlap_efficiency, compute_slowdown;
};

/// Value at `fraction` of the sorted values, interpolated between neighbours; values is not empty.
double quantile(std::vector<double> values, double fraction);
double median(std::vector<double> values);

/// Median of a - b, pair by pair: what changes slowly (clocks, neighbours on the machine) cancels.
double median_difference(std::span<const double> a, std::span<const double> b);

/// Spread of a - b, as a standard deviation estimated from the median absolute deviation.
double noise(std::span<const double> a, std::span<const double> b);

Metrics metrics(const Times& times, std::int64_t ranks);

/// Share of the speed of `ranks` independent ranks, at equal global work.
double strong_efficiency(double one_rank_seconds, int ranks, double seconds);

/// The same at equal tokens per rank, where the work per rank grows with the sequence: a ratio of
/// rates, not of times.
double weak_efficiency(double one_rank_tflops, double tflops_per_rank);

}  // namespace ringspan::bench
