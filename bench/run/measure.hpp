// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/closed_forms.hpp"
#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/oracle/check.hpp"
#include "bench/run/known_costs.hpp"
#include "bench/run/times.hpp"
#include "comm/launch.hpp"
#include "comm/transport.hpp"

namespace ringspan::bench {

/// What the ranks of one point measured; no judgement yet.
struct Measurement {
  Times times;
  std::vector<comm::Traffic> sent;              // in one run, [rank]
  std::vector<attention::Traffic> closed_form;  // [rank]
  std::int64_t peak_bytes = 0;                  // inputs and outputs included
  std::optional<Deviation> deviation;           // with --check
  std::int64_t sampled_rows = 0, sampled_keys = 0;
  std::vector<ProbedCosts> costs;  // that automatic all-to-alls went by
};

/// How its ranks are launched.
comm::LaunchOptions launch_options(const Point& point, const MeasureOptions& options);

/// What the point's automatic all-to-alls go by. None where there are none, or in one address
/// space: no message is dearer there than another, and direct is best. Collective.
std::optional<GroupCosts> exchange_costs(const Point& point, const comm::Communicator& world,
                                         KnownCosts& known);

/// Throws invalid_argument if the transport does not move memory of the point's device.
void require_device(const Point& point);

/// Launches the ranks of a point once and runs its four modes in turn, iteration after iteration.
/// Throws the Error that refused the point, or that ended it: a rank's own, or aborted after
/// --point-timeout or Ctrl-C. Where ranks are processes, each of them calls it; only the first
/// gets what was measured. What messages cost is measured first if the point has to know.
Measurement measure(const Point& point, const MeasureOptions& options, KnownCosts& known);

}  // namespace ringspan::bench
