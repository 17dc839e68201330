// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention/schedule.hpp"
#include "tests/attention/array.hpp"
#include "tests/attention/oracle.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::attention {

/// A schedule as make_schedule() takes it.
struct NamedSchedule {
  std::string name;
  ScheduleOptions options = {};
};

/// Such as "usp(ulysses 2, ring_inner)".
std::string describe(const NamedSchedule& schedule);

/// The schedules of the full grid, with every layout, and usp with every degree and placement, on
/// so many ranks.
std::vector<NamedSchedule> all_schedules(int ranks);

/// The others, each with some of its options.
std::vector<NamedSchedule> more_schedules(int ranks);

/// All of them, as far as they take the mask.
std::vector<NamedSchedule> every_schedule(int ranks, const Mask& mask);

/// Numbers of ranks to test with, as far as there are processes. Sanitizers look for what any run
/// can show, and are slow: they get one.
std::vector<int> rank_counts();

/// How many ranks share the heads of one inner shard.
int ulysses_degree(const NamedSchedule& schedule, int ranks);

/// With a mask of documents, the sequence is packed: documents of many lengths, among them empty
/// ones and single tokens, and padding behind them.
Problem make_problem(std::string_view mask, std::int64_t length, const Shape& shape);

/// Such as "causal, 29 tokens, batch 3, heads 6/3, head_dim 64, fp32".
std::string describe(const Problem& problem);

/// Results over the whole sequence, put together from the shards of the ranks.
struct WholeResults {
  explicit WholeResults(const Problem& problem);
  /// Collective over the processes of the test: each then has what all have put in.
  void share();
  Array out, lse, dq, dk, dv, d_sinks;
};

/// One rank's tensors, filled from the whole inputs; results are whatever allocate() left there.
struct RankTensors {
  RankTensors(comm::Device& device, const Problem& problem, const Shard& shard,
              const OracleInputs& whole, std::optional<DType> gradients = {});

  Inputs inputs() const;
  Outputs outputs() const { return {out, lse}; }
  Gradients gradients() const;
  /// Makes every result NaN, so that what a schedule leaves out shows.
  void forget_results() const;
  /// Disjoint parts, so that ranks may do so at the same time; d_sinks on rank 0.
  void put_into(WholeResults& whole, bool with_d_sinks) const;

  std::vector<std::int64_t> tokens;  // positions
  Tensor q, k, v, d_out, sinks;
  Tensor out, lse, dq, dk, dv, d_sinks;
};

/// Output, lse and gradients of one rank's tokens against the oracle. `rounded`: the schedule has
/// had the gradients in the problem's dtype, in whatever dtype they are now. `factor`: of the bounds
/// on all but lse.
testing::AssertionResult matches(const RankTensors& actual, const OracleResults& expected,
                                 const Problem& problem, bool rounded = false,
                                 double factor = Bound{}.factor);

/// Forward and backward on one rank. Gradients are in the problem's dtype unless told otherwise.
RankTensors run_rank(Schedule& schedule, const comm::Communicator& comm, const Problem& problem,
                     const OracleInputs& inputs, std::optional<DType> gradients = {});

/// The same with tensors that are there already.
void run_rank(Schedule& schedule, const Problem& problem, const RankTensors& tensors);

/// Forward and backward by all ranks.
WholeResults run(const NamedSchedule& schedule, const Problem& problem, const OracleInputs& inputs,
                 const comm::LaunchOptions& options, std::string_view kernels = "reference");

/// The same, compared on every rank; the first that is wrong is reported.
testing::AssertionResult run_and_compare(const NamedSchedule& schedule, const Problem& problem,
                                         const OracleInputs& inputs, const OracleResults& expected,
                                         const comm::LaunchOptions& options,
                                         std::string_view kernels = "reference");

}  // namespace ringspan::attention
