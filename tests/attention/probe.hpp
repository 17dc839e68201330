// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

// What probes have in common: small problems, and the cpu kernels in every schedule.
namespace ringspan::attention {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline const std::vector<const char*> kMasks{
    "full", "causal", "window:2", "window:7:3", "documents", "documents+causal+window:2"};

/// Calls `probe(schedule, ranks)` for every schedule that is legal with the mask and 4 heads, and
/// for those that are not in the full grid on three and four ranks.
template <typename Probe>
void for_each_schedule(const Problem& problem, const Probe& probe) {
  for (const int ranks : rank_counts()) {
    const bool more = ranks == 3 || ranks == 4;
    for (const NamedSchedule& schedule :
         more ? every_schedule(ranks, problem.mask) : all_schedules(ranks)) {
      if (ulysses_degree(schedule, ranks) > 4) continue;
      SCOPED_TRACE(concat(describe(schedule), " on ", ranks, " ranks"));
      probe(schedule, ranks);
    }
  }
}

inline Problem small_problem(std::string_view mask, std::int64_t length = 19) {
  return make_problem(mask, length,
                      {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = length});
}

inline WholeResults compute(const NamedSchedule& schedule, int ranks, const Problem& problem,
                            const OracleInputs& inputs, std::uint64_t delay_seed = 0) {
  comm::LaunchOptions options{.ranks = ranks, .deadline = 20, .debug = {.poison = true}};
  if (delay_seed) options.debug.max_delay = 100e-6, options.debug.seed = delay_seed;
  return run(schedule, problem, inputs, options, "cpu");
}

inline std::vector<std::int64_t> tokens_of(const Problem& problem) {
  std::vector<std::int64_t> tokens(problem.sequence.length);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// Every value of one token.
template <typename Change>
inline void change_token(Array& array, std::int64_t token, const Change& change) {
  for (std::int64_t b = 0; b < array.batch; ++b) {
    double* row = array.row(b, token, 0);
    for (std::int64_t i = 0; i < array.heads * array.dim; ++i) row[i] = change(row[i]);
  }
}

inline void change_token(OracleInputs& inputs, std::int64_t token, double value) {
  for (Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
    change_token(*array, token, [value](double) { return value; });
  }
}

}  // namespace ringspan::attention
