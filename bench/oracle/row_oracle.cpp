// SPDX-License-Identifier: Apache-2.0
#include "bench/oracle/row_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringspan::bench {
namespace {

using attention::DType;

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::reproducible: break;
  }
  return 0;
}

/// Kernels may lose a weight below this share of the row's largest to underflow, as it is or times
/// a small value, since fp32 ends at 2^-126: far below any rounding of the row, but all that there
/// is to a value made of such weights alone. The largest weight is at most 1, so no key loses more,
/// in whichever block or merge it does.
constexpr double kNegligibleWeight = 0x1p-120;

bool narrow(DType dtype) { return dtype != attention::accumulator(dtype); }

}  // namespace

/// `added`: the same sum of absolute values. `inherited`: error of what it was computed from.
struct RowOracle::Sum {
  double value = 0, added = 0, inherited = 0;

  void add(const Sum& factor, double x) {
    value += factor.value * x;
    added += factor.added * std::abs(x);
    inherited += factor.inherited * std::abs(x);
  }
};

struct RowOracle::Row {
  std::vector<float> q, d_out;
  std::vector<Sum> out;
  Sum delta;  // d_out.out
  double largest_logit = 0;
  double lse = -std::numeric_limits<double>::infinity();
};

/// p = exp(logit - lse) and ds = p (d_out.v - delta), times the slope of the softcap.
struct RowOracle::Weights {
  Sum p, ds;
};

RowOracle::RowOracle(const attention::Problem& problem, const InputValues& inputs,
                     bool rounds_weights)
    : problem_(problem),
      inputs_(inputs),
      rounds_weights_(rounds_weights),
      scale_(problem.softmax_scale.value_or(
          1 / std::sqrt(static_cast<double>(problem.shape.head_dim)))),
      document_starts_{0} {
  for (const std::int64_t tokens : problem.sequence.documents) {
    document_starts_.push_back(document_starts_.back() + tokens);
  }
  if (problem.sequence.documents.empty()) document_starts_.push_back(problem.sequence.length);
}

// Whatever the mask, the partners of a position are neighbours of it: a distance before and behind,
// inside its document if that matters, never in the padding.
RowOracle::Interval RowOracle::neighbours(std::int64_t position, std::optional<std::int64_t> before,
                                          std::optional<std::int64_t> behind) const {
  Interval inside{0, document_starts_.back()};
  if (position >= inside.end) return {};
  if (problem_.mask.documents) {
    const auto next = std::upper_bound(document_starts_.begin(), document_starts_.end(), position);
    inside = {*std::prev(next), *next};
  }
  const std::int64_t room_before = position - inside.first, room_behind = inside.end - 1 - position;
  return {position - std::min(before.value_or(room_before), room_before),
          position + std::min(behind.value_or(room_behind), room_behind) + 1};
}

std::vector<float> RowOracle::head(InputTensor tensor, std::int64_t batch, std::int64_t position,
                                   std::int64_t head) const {
  const attention::Shape& shape = problem_.shape;
  const bool of_keys = tensor == InputTensor::q || tensor == InputTensor::k;
  std::vector<float> values(of_keys ? shape.head_dim : shape.value_dim);
  inputs_.head(tensor, batch, position, head, static_cast<std::int64_t>(values.size()),
               values.data());
  return values;
}

double RowOracle::logit(const Row& row, const std::vector<float>& k) const {
  double logit = 0;
  for (std::size_t d = 0; d < k.size(); ++d) logit += double{row.q[d]} * double{k[d]};
  logit *= scale_;
  const std::optional<double>& cap = problem_.softcap;
  return cap ? *cap * std::tanh(logit / *cap) : logit;
}

RowOracle::Weights RowOracle::weights(const Row& row, const std::vector<float>& k,
                                      const std::vector<float>& v) const {
  const double logit = this->logit(row, k), p = std::exp(logit - row.lse);
  const double bent = problem_.softcap ? logit / *problem_.softcap : 0;
  Sum d_out_v;
  for (std::size_t d = 0; d < v.size(); ++d) {
    d_out_v.add({row.d_out[d], std::abs(double{row.d_out[d]})}, v[d]);
  }
  const double slope = 1 - bent * bent;
  const double added = d_out_v.added + row.delta.added;
  return {{p, p, kNegligibleWeight},
          {p * slope * (d_out_v.value - row.delta.value), p * added,
           p * row.delta.inherited + kNegligibleWeight * added}};
}

RowOracle::Row RowOracle::row(std::int64_t batch, std::int64_t head, std::int64_t query) const {
  const attention::Shape& shape = problem_.shape;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const Interval keys = keys_of(query);
  Row row{this->head(InputTensor::q, batch, query, head),
          this->head(InputTensor::d_out, batch, query, head), std::vector<Sum>(shape.value_dim)};
  if (keys.first == keys.end) return row;

  std::vector<double> logits;
  for (std::int64_t key = keys.first; key < keys.end; ++key) {
    logits.push_back(logit(row, this->head(InputTensor::k, batch, key, kv_head)));
    row.largest_logit = std::max(row.largest_logit, std::abs(logits.back()));
  }
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  if (problem_.sinks) {
    float sink = 0;
    inputs_.head(InputTensor::sinks, 0, 0, head, 1, &sink);
    sum += std::exp(sink - most);
  }
  row.lse = most + std::log(sum);

  for (std::int64_t key = keys.first; key < keys.end; ++key) {
    const double p = std::exp(logits[key - keys.first] - row.lse);
    const std::vector<float> v = this->head(InputTensor::v, batch, key, kv_head);
    for (std::size_t d = 0; d < v.size(); ++d) row.out[d].add({p, p, kNegligibleWeight}, v[d]);
  }
  const double out_epsilon = narrow(shape.dtype) ? epsilon(shape.dtype) : 0;
  for (std::size_t d = 0; d < row.out.size(); ++d) {
    const Sum& out = row.out[d];
    row.delta.add({out.value, out.added, out.inherited + out_epsilon * std::abs(out.value)},
                  row.d_out[d]);
  }
  return row;
}

double RowOracle::relative_error(double largest_logit) const {
  const DType dtype = problem_.shape.dtype;
  const double weights = rounds_weights_ ? 2 * epsilon(dtype) : 0;
  return weights + 16 * epsilon(attention::accumulator(dtype)) * (1 + largest_logit);
}

double RowOracle::storage_error(double value) const {
  const DType dtype = problem_.shape.dtype;
  const double smallest = dtype == DType::f16 ? 0x1p-24 : 0;  // below its normal numbers
  return narrow(dtype) ? epsilon(dtype) * std::abs(value) + smallest : 0;
}

std::vector<Expected> RowOracle::rounded(const std::vector<Sum>& sums, double largest_logit) const {
  const double relative = relative_error(largest_logit);
  std::vector<Expected> expected;
  for (const Sum& sum : sums) {
    const double error = relative * sum.added + sum.inherited + storage_error(sum.value);
    expected.push_back({sum.value, error});
  }
  return expected;
}

std::vector<Expected> RowOracle::dv_sum_share(std::int64_t batch, std::int64_t kv_head,
                                              std::int64_t query) const {
  const attention::Shape& shape = problem_.shape;
  std::vector<Expected> share(shape.value_dim);
  const Interval keys = keys_of(query);
  if (keys.first == keys.end) return share;
  // No logit is computed here: what the inputs and the softcap allow bounds them all.
  const double largest_input = InputValues::kLargest;
  const double largest_logit = std::min(
      std::abs(scale_) * static_cast<double>(shape.head_dim) * largest_input * largest_input,
      problem_.softcap.value_or(std::numeric_limits<double>::infinity()));
  const double relative = relative_error(largest_logit);
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const std::vector<float> d_out = this->head(InputTensor::d_out, batch, query, head);
    for (std::size_t d = 0; d < d_out.size(); ++d) {
      share[d].value += d_out[d];
      share[d].bound += relative * std::abs(double{d_out[d]});
    }
  }
  return share;
}

RowOracle::QueryRow RowOracle::query_row(std::int64_t batch, std::int64_t head, std::int64_t query,
                                         bool backward) const {
  const attention::Shape& shape = problem_.shape;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const Row row = this->row(batch, head, query);
  std::vector<Sum> dq(backward ? shape.head_dim : 0);  // scale * sum of ds k
  const Interval keys = backward ? keys_of(query) : Interval{};
  for (std::int64_t key = keys.first; key < keys.end; ++key) {
    const std::vector<float> k = this->head(InputTensor::k, batch, key, kv_head);
    const Weights weights = this->weights(row, k, this->head(InputTensor::v, batch, key, kv_head));
    for (std::size_t d = 0; d < k.size(); ++d) dq[d].add(weights.ds, scale_ * k[d]);
  }
  return {rounded(row.out, row.largest_logit), rounded(dq, row.largest_logit)};
}

RowOracle::KeyRow RowOracle::key_row(std::int64_t batch, std::int64_t kv_head,
                                     std::int64_t key) const {
  const attention::Shape& shape = problem_.shape;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::vector<float> k = head(InputTensor::k, batch, key, kv_head);
  const std::vector<float> v = head(InputTensor::v, batch, key, kv_head);
  std::vector<Sum> dk(k.size()), dv(v.size());  // scale * sum of ds q, sum of p d_out
  double largest_logit = 0;
  const Interval queries = queries_of(key);
  for (std::int64_t query = queries.first; query < queries.end; ++query) {
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Row row = this->row(batch, head, query);
      const Weights weights = this->weights(row, k, v);
      largest_logit = std::max(largest_logit, row.largest_logit);
      for (std::size_t d = 0; d < k.size(); ++d) dk[d].add(weights.ds, scale_ * row.q[d]);
      for (std::size_t d = 0; d < v.size(); ++d) dv[d].add(weights.p, row.d_out[d]);
    }
  }
  return {rounded(dk, largest_logit), rounded(dv, largest_logit)};
}

double RowOracle::key_row_cost(std::int64_t key) const {
  const attention::Shape& shape = problem_.shape;
  const Interval queries = queries_of(key);
  double keys = 0;
  for (std::int64_t query = queries.first; query < queries.end; ++query) {
    keys += static_cast<double>(keys_of(query).end - keys_of(query).first);
  }
  return keys *
         static_cast<double>((shape.heads / shape.kv_heads) * (shape.head_dim + shape.value_dim));
}

}  // namespace ringspan::bench
