// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "attention/closed_forms.hpp"
#include "attention/schedule.hpp"
#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"
#include "bench/oracle/check.hpp"
#include "bench/run/run_mode.hpp"
#include "bench/run/step_clock.hpp"
#include "bench/run/switched_kernels.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What the attention library is asked to compute at a point; throws invalid_argument if illegal.
attention::Problem problem(const Point& point, const MeasureOptions& options);

/// What each rank must send in a full run.
std::vector<attention::Traffic> closed_form(const Point& point, const MeasureOptions& options,
                                            const comm::World& world);

/// One rank's part of a point: inputs, outputs, and the plan, whose transport and kernels can be
/// switched. Collective, as the plan is.
class RankRun {
 public:
  RankRun(const comm::Communicator& world, const Point& point, const MeasureOptions& options,
          KernelWatch watch = {});
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  /// The pass of the point in this mode; seconds on this rank, from a barrier to its own end.
  /// `begins`: called behind the barrier, when what was queued before has run and been told.
  double run(const RunMode& mode, const std::function<void()>& begins = {});

  /// When the last run left its barrier, where its time went, and what this rank sent in it.
  double started() const { return started_; }
  const StepClock& clock() const { return clock_; }
  const comm::Traffic& sent() const { return sent_; }

  /// The outcome of the last run.
  CheckedTensors results() const;

  /// Compares the outcome of the last run, if it was in full, with the oracle.
  Deviation check() const;
  std::int64_t sampled_rows() const;

  /// The same of the gradients of many keys at once. Collective.
  Deviation check_sums() const;
  std::int64_t sampled_keys() const;

  /// What this rank must send in a full run.
  attention::Traffic closed_form() const;

 private:
  void forward();
  void backward();

  comm::Communicator world_;
  Point point_;
  attention::Problem problem_;
  std::uint64_t seed_;
  RunMode mode_;
  double started_ = 0;
  StepClock clock_;
  comm::Traffic sent_;
  std::unique_ptr<attention::Kernels> kernels_;
  std::unique_ptr<attention::Schedule> schedule_;
  attention::Shard shard_;
  attention::Tensor q_, k_, v_, sinks_, d_out_, out_, dq_, dk_, dv_, d_sinks_;
  std::unique_ptr<attention::Plan> plan_;
  std::unique_ptr<attention::Saved> saved_;
};

}  // namespace ringspan::bench
