// SPDX-License-Identifier: Apache-2.0
// Every schedule, forward and backward, against the oracle on the full grid in fp32: one reference
// for batches of three and of one, one launch per problem and number of ranks. Minutes, so in
// release only.
#include <deque>
#include <future>
#include <iostream>

#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace schedule_grid_test {

const std::vector<std::pair<int, int>> kHeads{{4, 4}, {4, 2}, {4, 1}, {6, 3}, {7, 7}, {8, 2}};
const std::vector<int> kLengths{1, 3, 7, 16, 29, 257};

/// A problem with what is right for it.
struct Reference {
  Problem problem;
  OracleInputs inputs;
  OracleResults results;
};

std::vector<NamedSchedule> grid_schedules(int ranks) {
  std::vector<NamedSchedule> schedules;
  for (const NamedSchedule& schedule : all_schedules(ranks)) {
    // All layouts of all_gather_kv are in the pairwise cover; that of its use is zigzag.
    const bool other_layout =
        schedule.options.layout.value_or(LayoutKind::zigzag) != LayoutKind::zigzag;
    if (!other_layout) schedules.push_back(schedule);
  }
  return schedules;
}

/// Leaves the first sequence of its batch, for which the same is right without the others.
void keep_first_sequence(Reference& reference) {
  OracleInputs& in = reference.inputs;
  OracleResults& r = reference.results;
  for (Array* array : {&in.q, &in.k, &in.v, &in.d_out, &r.out, &r.lse, &r.dq, &r.dk, &r.dv,
                       &r.out_unit, &r.lse_unit, &r.dq_unit, &r.dk_unit, &r.dv_unit}) {
    array->values.resize(array->values.size() / array->batch);
    array->batch = 1;
  }
  reference.problem.shape.batch = 1;
}

/// Problems in the order of the grid, each worked out while the one before it is in use.
class References {
 public:
  explicit References(std::vector<Problem> problems) : problems_(std::move(problems)) { start(); }

  bool done() const { return next_ > problems_.size(); }
  Reference take() {
    Reference reference = pending_.get();
    start();
    return reference;
  }

 private:
  void start() {
    if (next_ < problems_.size()) {
      pending_ = std::async(std::launch::async, [problem = problems_[next_]] {
        OracleInputs inputs = random_inputs(problem, 3);
        OracleResults results = oracle(problem, inputs);
        return Reference{problem, std::move(inputs), std::move(results)};
      });
    }
    ++next_;
  }

  std::vector<Problem> problems_;
  std::size_t next_ = 0;
  std::future<Reference> pending_;
};

/// A rank's tensors by the shard that they hold, since several schedules have the same.
class TensorsByShard {
 public:
  TensorsByShard(comm::Device& device, const Reference& reference)
      : device_(device), reference_(reference) {}

  /// The results in them are NaN.
  const RankTensors& operator[](const Shard& shard) {
    for (auto& [held, tensors] : tensors_) {
      if (held != shard) continue;
      tensors.forget_results();
      return tensors;
    }
    return tensors_
        .emplace_back(shard, RankTensors(device_, reference_.problem, shard, reference_.inputs))
        .second;
  }

 private:
  comm::Device& device_;
  const Reference& reference_;
  std::deque<std::pair<Shard, RankTensors>> tensors_;
};

struct Count {
  int computed = 0, refused = 0;
};

/// All schedules on so many ranks, in one launch.
void check(const Reference& reference, int ranks, Count& count) {
  const std::vector<NamedSchedule> schedules = grid_schedules(ranks);
  const auto legal = [&](const NamedSchedule& schedule) {
    return ulysses_degree(schedule, ranks) <= reference.problem.shape.heads;
  };
  comm::test::launch({.ranks = ranks, .deadline = 30}, [&](const comm::Communicator& comm) {
    const std::unique_ptr<Kernels> kernels = make_kernels("cpu", comm.device());
    TensorsByShard by_shard(comm.device(), reference);
    for (const NamedSchedule& schedule : schedules) {
      SCOPED_TRACE(concat(describe(schedule), ", rank ", comm.rank(), " of ", ranks, ", ",
                          describe(reference.problem)));
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      try {
        const RankTensors& tensors = by_shard[made->shard(reference.problem.sequence)];
        run_rank(*made, reference.problem, tensors);
        EXPECT_TRUE(matches(tensors, reference.results, reference.problem));
        EXPECT_TRUE(legal(schedule)) << "not refused";
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument) throw;
        EXPECT_FALSE(legal(schedule)) << error.what();
      }
    }
  });
  for (const NamedSchedule& schedule : schedules)
    legal(schedule) ? ++count.computed : ++count.refused;
}

using MaskAndDim = std::tuple<const char*, int>;

class ScheduleGridTest : public testing::TestWithParam<MaskAndDim> {};

TEST_P(ScheduleGridTest, MatchesTheOracle) {
  const auto [mask, head_dim] = GetParam();
  std::vector<Problem> problems;
  for (const int length : kLengths) {
    for (const auto& [heads, kv_heads] : kHeads) {
      problems.push_back(make_problem(mask, length,
                                      {.batch = 3,
                                       .heads = heads,
                                       .kv_heads = kv_heads,
                                       .head_dim = head_dim,
                                       .value_dim = head_dim}));
    }
  }
  Count count;
  for (References references(std::move(problems)); !references.done();) {
    Reference reference = references.take();
    for (const int ranks : rank_counts()) check(reference, ranks, count);
    keep_first_sequence(reference);
    for (const int ranks : rank_counts()) check(reference, ranks, count);
  }
  std::cout << mask << ", head_dim " << head_dim << ": " << count.computed
            << " points computed and compared, " << count.refused << " refused\n";
}

INSTANTIATE_TEST_SUITE_P(Grid, ScheduleGridTest,
                         testing::Combine(testing::Values("full", "causal", "window:40",
                                                          "window:7:3", "documents",
                                                          "documents+causal+window:40"),
                                          testing::Values(6, 64, 72, 128)));

}  // namespace schedule_grid_test
}  // namespace ringspan::attention
