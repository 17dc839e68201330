// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// simulate() in copies of this process, one for each half of the modes: a simulation needs a fresh
/// one, and what goes wrong in it stays there. Throws what refused or ended the point: aborted
/// after --point-timeout or Ctrl-C, system if the process dies.
Measurement simulate_apart(const Point& point, const MeasureOptions& options,
                           const comm::Cluster& cluster);

/// No copy is started while another thread holds it. Copies have none of the other threads, so that
/// a lock which one of these has is never released in them: hold it while a library may have one.
std::mutex& starting_copies();

}  // namespace ringspan::bench
