// SPDX-License-Identifier: Apache-2.0
#include "bench/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bench/random.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using attention::ConstTensorView;
using attention::Problem;

constexpr double kKeyRowBudget = 1 << 26;  // multiply-adds: a fraction of a second
constexpr int kRandomRows = 12;

/// A row of the sample.
struct Place {
  std::int64_t batch, head, position;
};

/// The first and the last token, where masks end, and random ones.
std::vector<Place> sample(const Problem& problem, std::int64_t heads, std::uint64_t seed) {
  const std::int64_t length = problem.sequence.length;
  std::vector<Place> places;
  for (int i = 0; i < kRandomRows; ++i) {
    const auto draw = [&](std::int64_t bound, int which) {
      return random_below(bound, seed, 3 * i + which);
    };
    const std::int64_t position = i == 0 ? 0 : i == 1 ? length - 1 : draw(length, 2);
    places.push_back({draw(problem.shape.batch, 0), draw(heads, 1), position});
  }
  return places;
}

std::vector<Place> query_sample(const Problem& problem, std::uint64_t seed) {
  return sample(problem, problem.shape.heads, seed);
}

std::vector<Place> key_sample(const Problem& problem, const RowOracle& oracle, std::uint64_t seed) {
  std::vector<Place> places = sample(problem, problem.shape.kv_heads, seed + 1);
  double budget = kKeyRowBudget;
  std::erase_if(places, [&](const Place& place) {
    const double cost = oracle.key_row_cost(place.position);
    if (cost > budget) return true;
    budget -= cost;
    return false;
  });
  return places;
}

/// Distance from the expected value in units of its bound; infinite for NaN.
double stray(double got, double expected, double bound) {
  const double error = std::abs(got - expected);
  if (error == 0) return 0;
  return error / bound <= std::numeric_limits<double>::max()
             ? error / bound
             : std::numeric_limits<double>::infinity();
}

class Comparison {
 public:
  explicit Comparison(comm::Device& device)
      : kernels_(attention::make_kernels("reference", device)) {}

  void compare(ResultTensor which, const ConstTensorView& tensor, const Place& place,
               std::int64_t row, const std::vector<Expected>& expected) {
    const std::vector<double> got = read(tensor, place, row);
    ++result_.rows;
    for (std::size_t d = 0; d < got.size(); ++d) {
      Deviation value{which, place.batch, place.head, place.position};
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
  std::vector<double> read(ConstTensorView tensor, const Place& place, std::int64_t row) {
    std::vector<double> values(tensor.head_dim);
    tensor.data =
        static_cast<const std::byte*>(tensor.data) +
        tensor.offset(place.batch, row, place.head) * attention::element_bytes(tensor.dtype);
    tensor.batch = tensor.tokens = tensor.heads = 1;
    kernels_->copy(tensor, attention::TensorView::packed(values.data(), attention::DType::f64, 1, 1,
                                                         1, tensor.head_dim));
    return values;
  }

  std::unique_ptr<attention::Kernels> kernels_;
  Deviation result_;
};

}  // namespace

bool Deviation::wrong() const { return stray(got, expected, bound) > 1; }

std::string Deviation::text() const {
  constexpr const char* kNames[] = {"out", "dq", "dk", "dv"};
  return concat(kNames[static_cast<int>(tensor)], " of batch ", batch, ", token ", position,
                ", head ", head, ", dimension ", dimension, " is ", got, "; it should be ",
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
                     const CheckedTensors& tensors, comm::Device& device) {
  const RowOracle oracle(problem, InputValues(seed));
  const bool backward = tensors.dq.data != nullptr;
  const std::vector<Place> queries = query_sample(problem, seed);
  const std::vector<Place> keys =
      backward ? key_sample(problem, oracle, seed) : std::vector<Place>{};
  const std::vector<std::int64_t> positions = attention::positions(shard);
  Comparison comparison(device);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const auto t = static_cast<std::int64_t>(row);
    for (const Place& place : queries) {
      if (place.position != positions[row]) continue;
      const auto expected = oracle.query_row(place.batch, place.head, place.position, backward);
      comparison.compare(ResultTensor::out, tensors.out, place, t, expected.out);
      if (backward) comparison.compare(ResultTensor::dq, tensors.dq, place, t, expected.dq);
    }
    for (const Place& place : keys) {
      if (place.position != positions[row]) continue;
      const auto expected = oracle.key_row(place.batch, place.head, place.position);
      comparison.compare(ResultTensor::dk, tensors.dk, place, t, expected.dk);
      comparison.compare(ResultTensor::dv, tensors.dv, place, t, expected.dv);
    }
  }
  return comparison.result();
}

std::int64_t sampled_rows(const Problem& problem, std::uint64_t seed,
                          const CheckedTensors& tensors) {
  const auto queries = static_cast<std::int64_t>(query_sample(problem, seed).size());
  if (!tensors.dq.data) return queries;
  const RowOracle oracle(problem, InputValues(seed));
  return 2 * queries + 2 * static_cast<std::int64_t>(key_sample(problem, oracle, seed).size());
}

}  // namespace ringspan::bench
