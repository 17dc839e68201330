// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "bench/run/simulate.hpp"
#include "comm/cluster.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

/// A point to be simulated.
struct SimulationTask {
  Point point;
  MeasureOptions options;
  comm::Cluster cluster;
  ModePair modes = ModePair::with_kernels_and_messages;
};

/// What processes that simulate a point are told and tell, as JSON. Numbers keep every bit.
std::string text(const SimulationTask& task);
SimulationTask simulation_task(const std::string& text);

std::string text(const Measurement& measurement);
std::string text(const Error& failure);
/// Throws the failure if it is one.
Measurement measurement(const std::string& text);

}  // namespace ringspan::bench
