// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/trace/timeline.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// Runs a point, warms up, and writes down one more pass. Throws as measure() does. Where ranks are
/// processes, each of them calls it, and only the first gets the timeline, in its own time.
Timeline record(const Point& point, const MeasureOptions& options);

/// The same in virtual time. One cluster per process.
Timeline record_simulated(const Point& point, const MeasureOptions& options,
                          const comm::Cluster& cluster);

}  // namespace ringspan::bench
