// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "comm/cluster.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {

/// Throws invalid_argument for a point that cannot be simulated on this cluster.
void require_simulable(const Point& point, const comm::Cluster& cluster);

/// How its ranks are launched: on as many nodes as they need. Throws as require_simulable().
comm::LaunchOptions simulated_launch(const Point& point, const MeasureOptions& options,
                                     const comm::Cluster& cluster);

/// The four modes, in two halves that take about equally long: O and S; C and M.
enum class ModePair { with_kernels_and_messages, one_of_them };

/// measure() in virtual time: half of the modes once each, which is exact. One cluster per process.
Measurement simulate(const Point& point, const MeasureOptions& options,
                     const comm::Cluster& cluster, ModePair modes);

/// Of both halves.
Measurement joined(Measurement with_kernels_and_messages, const Measurement& one_of_them);

}  // namespace ringspan::bench
