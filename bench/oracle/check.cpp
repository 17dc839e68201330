// SPDX-License-Identifier: Apache-2.0
#include "bench/oracle/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bench/random.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using attention::ConstTensorView;
using attention::Problem;

constexpr double kKeyRowBudget = 1 << 26;  // multiply-adds: a fraction of a second
constexpr int kRandomRows = 12;
constexpr double kDeadline = 60;  // seconds, of a copy

struct SampledRow {
  std::int64_t batch, head, position;
};

/// The first and the last token, where masks end, and random ones.
std::vector<SampledRow> sample(const Problem& problem, std::int64_t heads, std::uint64_t seed) {
  const std::int64_t length = problem.sequence.length;
  std::vector<SampledRow> rows;
  for (int i = 0; i < kRandomRows; ++i) {
    const auto draw = [&](std::int64_t bound, int which) {
      return random_below(bound, seed, 3 * i + which);
    };
    const std::int64_t position = i == 0 ? 0 : i == 1 ? length - 1 : draw(length, 2);
    rows.push_back({draw(problem.shape.batch, 0), draw(heads, 1), position});
  }
  return rows;
}

std::vector<SampledRow> query_sample(const Problem& problem, std::uint64_t seed) {
  return sample(problem, problem.shape.heads, seed);
}

std::vector<SampledRow> key_sample(const Problem& problem, const RowOracle& oracle,
                                   std::uint64_t seed) {
  std::vector<SampledRow> rows = sample(problem, problem.shape.kv_heads, seed + 1);
  double budget = kKeyRowBudget;
  std::erase_if(rows, [&](const SampledRow& sampled) {
    const double cost = oracle.key_row_cost(sampled.position);
    if (cost > budget) return true;
    budget -= cost;
    return false;
  });
  return rows;
}

/// Distance from the expected value in units of its bound; furthest is what is not finite.
double stray(double got, double expected, double bound) {
  const double error = std::abs(got - expected);
  if (error == 0) return 0;
  return std::isfinite(error) ? std::min(error / bound, std::numeric_limits<double>::max())
                              : std::numeric_limits<double>::infinity();
}

std::string number(double value) { return std::isfinite(value) ? concat(value) : "not finite"; }

/// Brings rows of a device's tensors to the host, in fp64.
class RowReader {
 public:
  explicit RowReader(comm::Device& device)
      : device_(device), kernels_(attention::make_kernels("null", device)) {}

  std::vector<double> read(ConstTensorView tensor, const SampledRow& sampled, std::int64_t row) {
    const std::int64_t bytes = tensor.head_dim * static_cast<std::int64_t>(sizeof(double));
    if (values_.bytes() < bytes) values_ = device_.allocate_values(bytes);
    tensor.data =
        static_cast<const std::byte*>(tensor.data) +
        tensor.offset(sampled.batch, row, sampled.head) * attention::element_bytes(tensor.dtype);
    tensor.batch = tensor.tokens = tensor.heads = 1;
    kernels_->copy(tensor, attention::TensorView::packed(values_.data(), attention::DType::f64, 1,
                                                         1, 1, tensor.head_dim));
    device_.synchronize(kDeadline);
    const auto* const values = reinterpret_cast<const double*>(values_.data());
    return {values, values + tensor.head_dim};
  }

 private:
  comm::Device& device_;
  std::unique_ptr<attention::Kernels> kernels_;
  comm::Buffer values_;
};

class Comparison {
 public:
  explicit Comparison(comm::Device& device) : reader_(device) {}

  void compare(ResultTensor which, const ConstTensorView& tensor, const SampledRow& sampled,
               std::int64_t row, const std::vector<Expected>& expected) {
    const std::vector<double> got = reader_.read(tensor, sampled, row);
    ++result_.rows;
    for (std::size_t d = 0; d < got.size(); ++d) {
      Deviation value{which, sampled.batch, sampled.head, sampled.position};
      value.dimension = static_cast<std::int64_t>(d);
      value.got = got[d];
      value.expected = expected[d].value;
      value.bound = expected[d].bound;
      value.max_abs_error = std::abs(value.got - value.expected);
      result_ = combined(result_, value);
    }
  }

  const Deviation& result() const { return result_; }

 private:
  RowReader reader_;
  Deviation result_;
};

}  // namespace

bool Deviation::wrong() const { return stray(got, expected, bound) > 1; }

std::string Deviation::text() const {
  constexpr const char* kNames[] = {"out", "dq", "dk", "dv"};
  if (tensor == ResultTensor::dv_sum) {
    return concat("dv summed over all tokens of batch ", batch, ", KV head ", head, ", dimension ",
                  dimension, " is ", number(got), "; it should be ", expected, " within ", bound);
  }
  return concat(kNames[static_cast<int>(tensor)], " of batch ", batch, ", token ", position,
                ", head ", head, ", dimension ", dimension, " is ", number(got), "; it should be ",
                expected, " within ", bound);
}

Deviation combined(const Deviation& a, const Deviation& b) {
  const bool b_strays = stray(b.got, b.expected, b.bound) > stray(a.got, a.expected, a.bound);
  Deviation both = b_strays ? b : a;
  both.rows = a.rows + b.rows;
  both.max_abs_error = std::isnan(a.max_abs_error) || a.max_abs_error > b.max_abs_error
                           ? a.max_abs_error
                           : b.max_abs_error;
  return both;
}

Deviation check_rows(const Problem& problem, std::uint64_t seed, const attention::Shard& shard,
                     const CheckedTensors& tensors, comm::Device& device,
                     const attention::Kernels& kernels) {
  const RowOracle oracle(problem, InputValues(seed), kernels.rounds_weights(problem.shape));
  const bool backward = tensors.dq.data != nullptr;
  const std::vector<SampledRow> queries = query_sample(problem, seed);
  const std::vector<SampledRow> keys =
      backward ? key_sample(problem, oracle, seed) : std::vector<SampledRow>{};
  const std::vector<std::int64_t> positions = attention::positions(shard);
  Comparison comparison(device);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const auto t = static_cast<std::int64_t>(row);
    for (const SampledRow& sampled : queries) {
      if (sampled.position != positions[row]) continue;
      const auto expected =
          oracle.query_row(sampled.batch, sampled.head, sampled.position, backward);
      comparison.compare(ResultTensor::out, tensors.out, sampled, t, expected.out);
      if (backward) comparison.compare(ResultTensor::dq, tensors.dq, sampled, t, expected.dq);
    }
    for (const SampledRow& sampled : keys) {
      if (sampled.position != positions[row]) continue;
      const auto expected = oracle.key_row(sampled.batch, sampled.head, sampled.position);
      comparison.compare(ResultTensor::dk, tensors.dk, sampled, t, expected.dk);
      comparison.compare(ResultTensor::dv, tensors.dv, sampled, t, expected.dv);
    }
  }
  return comparison.result();
}

std::int64_t sampled_keys(const Problem& problem, std::uint64_t seed) {
  const RowOracle oracle(problem, InputValues(seed));
  return static_cast<std::int64_t>(key_sample(problem, oracle, seed).size());
}

std::int64_t sampled_rows(const Problem& problem, std::uint64_t seed,
                          const CheckedTensors& tensors) {
  const auto queries = static_cast<std::int64_t>(query_sample(problem, seed).size());
  return tensors.dq.data ? 2 * queries + 2 * sampled_keys(problem, seed) : queries;
}

Deviation check_dv_sum(const comm::Communicator& world, const Problem& problem, std::uint64_t seed,
                       const attention::Shard& shard, const ConstTensorView& dv,
                       const attention::Kernels& kernels) {
  if (problem.sinks) return {};
  const RowOracle oracle(problem, InputValues(seed), kernels.rounds_weights(problem.shape));
  RowReader reader(world.device());
  const std::int64_t batch = random_below(problem.shape.batch, seed, 0);
  const std::int64_t kv_head = random_below(problem.shape.kv_heads, seed, 1);
  struct Sides {
    double got = 0, expected = 0, bound = 0;
  };
  std::vector<Sides> all(world.size() * dv.head_dim);
  Sides* own = &all[world.rank() * dv.head_dim];
  const std::vector<std::int64_t> positions = attention::positions(shard);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::vector<Expected> share = oracle.dv_sum_share(batch, kv_head, positions[row]);
    const std::vector<double> got =
        reader.read(dv, {batch, kv_head, positions[row]}, static_cast<std::int64_t>(row));
    for (std::int64_t d = 0; d < dv.head_dim; ++d) {
      own[d].got += got[d];
      own[d].expected += share[d].value;
      own[d].bound += share[d].bound + oracle.storage_error(got[d]);
    }
  }
  comm::all_gather_bytes(world, reinterpret_cast<std::byte*>(all.data()),
                         dv.head_dim * static_cast<std::int64_t>(sizeof(Sides)));
  Deviation result;
  for (std::int64_t d = 0; d < dv.head_dim; ++d) {
    Deviation sum{ResultTensor::dv_sum, batch, kv_head};
    sum.dimension = d;
    for (int rank = 0; rank < world.size(); ++rank) {
      const Sides& part = all[rank * dv.head_dim + d];
      sum.got += part.got;
      sum.expected += part.expected;
      sum.bound += part.bound;
    }
    result = combined(result, sum);
  }
  return result;
}

}  // namespace ringspan::bench
