// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringspan::attention {
namespace {

/// The document of a token, by walking through the documents; -1 for padding.
std::int64_t document_of(const Sequence& sequence, std::int64_t position) {
  if (sequence.documents.empty()) return 0;
  std::int64_t document = 0;
  for (const std::int64_t length : sequence.documents) {
    if (position < length) return document;
    position -= length;
    ++document;
  }
  return -1;
}

/// Where a token is.
struct Token {
  std::int64_t position, document;
};

Token token(const Problem& problem, std::int64_t position) {
  return {position, document_of(problem.sequence, position)};
}

bool sees(const Mask& mask, const Token& query, const Token& key) {
  if (query.document == -1 || key.document == -1) return false;
  if (mask.documents && query.document != key.document) return false;
  if (mask.left && query.position - key.position > *mask.left) return false;
  if (mask.right && key.position - query.position > *mask.right) return false;
  return true;
}

/// For every query, the keys that it sees.
std::vector<std::vector<std::int64_t>> visible_keys(const Problem& problem) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < problem.sequence.length; ++i) tokens.push_back(token(problem, i));
  std::vector<std::vector<std::int64_t>> keys(tokens.size());
  for (const Token& query : tokens) {
    for (const Token& key : tokens) {
      if (sees(problem.mask, query, key)) keys[query.position].push_back(key.position);
    }
  }
  return keys;
}

// Compiled for several widths of vectors, of which the processor's is taken when the program is
// loaded, which is before a sanitizer is ready. The sums are the same, for nothing is reordered or
// fused.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(RINGSPAN_SANITIZED)
#define RINGSPAN_ANY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RINGSPAN_ANY_WIDTH
#endif

/// Eight partial sums let the compiler use vectors without reordering anything it was told.
template <typename Term>
[[gnu::always_inline]] inline double sum(std::int64_t count, const Term& term) {
  double parts[8] = {};
  std::int64_t d = 0;
  for (; d + 8 <= count; d += 8) {
    for (int lane = 0; lane < 8; ++lane) parts[lane] += term(d + lane);
  }
  for (; d < count; ++d) parts[0] += term(d);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

RINGSPAN_ANY_WIDTH double dot(const double* a, const double* b, std::int64_t count) {
  return sum(count, [&](std::int64_t d) { return a[d] * b[d]; });
}

RINGSPAN_ANY_WIDTH double dot_of_absolutes(const double* a, const double* b, std::int64_t count) {
  return sum(count, [&](std::int64_t d) { return std::abs(a[d] * b[d]); });
}

/// to += factor * from, and unit += weight * |from|.
RINGSPAN_ANY_WIDTH void add(double* to, double* unit, double factor, double weight,
                            const double* from, std::int64_t count) {
  for (std::int64_t d = 0; d < count; ++d) {
    to[d] += factor * from[d];
    unit[d] += weight * std::abs(from[d]);
  }
}

/// One query row of one head, with the keys that it sees in 0 .. size.
struct Row {
  std::int64_t b, i, h, g;                // batch, token, head, KV head
  const std::vector<std::int64_t>* keys;  // their tokens
  std::vector<double> p, slope;           // weights; derivative of the softcap
  double p_sink = 0;
  double unit = 0;  // L of the head comment
};

class Oracle {
 public:
  Oracle(const Problem& problem, const OracleInputs& inputs)
      : problem_(problem), in_(inputs), shape_(problem.shape), keys_(visible_keys(problem)) {
    const std::int64_t batch = shape_.batch, tokens = problem.sequence.length;
    const auto zeros = [&](std::int64_t heads, std::int64_t dim) {
      return Array(batch, tokens, heads, dim);
    };
    results_.out = results_.out_unit = zeros(shape_.heads, shape_.value_dim);
    results_.lse = results_.lse_unit = zeros(shape_.heads, 1);
    results_.dq = results_.dq_unit = zeros(shape_.heads, shape_.head_dim);
    results_.dk = results_.dk_unit = zeros(shape_.kv_heads, shape_.head_dim);
    results_.dv = results_.dv_unit = zeros(shape_.kv_heads, shape_.value_dim);
    if (!in_.sinks.empty()) {
      results_.d_sinks = results_.d_sinks_unit = Array(1, 1, shape_.heads, 1);
    }
    scale_ = problem.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(shape_.head_dim)));
  }

  OracleResults run() {
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t h = 0; h < shape_.heads; ++h) {
        for (std::int64_t i = 0; i < problem_.sequence.length; ++i) {
          Row row{b, i, h, h / (shape_.heads / shape_.kv_heads), &keys_[i]};
          forward(row);
          if (!row.keys->empty()) backward(row);
        }
      }
    }
    return std::move(results_);
  }

 private:
  void forward(Row& row) {
    double* lse = results_.lse.row(row.b, row.i, row.h);
    if (row.keys->empty()) {
      *lse = -std::numeric_limits<double>::infinity();
      return;
    }
    const double sink = in_.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                          : in_.sinks[static_cast<std::size_t>(row.h)];
    double largest = sink, largest_magnitude = in_.sinks.empty() ? 0 : std::abs(sink);
    const double* q = in_.q.row(row.b, row.i, row.h);
    for (const std::int64_t j : *row.keys) {
      double s = scale_ * dot(q, in_.k.row(row.b, j, row.g), shape_.head_dim), slope = 1;
      if (problem_.softcap) {
        const double t = std::tanh(s / *problem_.softcap);
        s = *problem_.softcap * t;
        slope = 1 - t * t;
      }
      largest = std::max(largest, s);
      largest_magnitude = std::max(largest_magnitude, std::abs(s));
      row.p.push_back(s);
      row.slope.push_back(slope);
    }
    double total = row.p_sink = std::exp(sink - largest);
    for (double& p : row.p) total += p = std::exp(p - largest);
    row.p_sink /= total;
    for (double& p : row.p) p /= total;
    row.unit = 1 + largest_magnitude;
    *lse = largest + std::log(total);
    *results_.lse_unit.row(row.b, row.i, row.h) = row.unit;
    for (std::size_t n = 0; n < row.p.size(); ++n) {
      add(results_.out.row(row.b, row.i, row.h), results_.out_unit.row(row.b, row.i, row.h),
          row.p[n], row.unit * row.p[n], in_.v.row(row.b, (*row.keys)[n], row.g), shape_.value_dim);
    }
  }

  void backward(const Row& row) {
    const double* d_out = in_.d_out.row(row.b, row.i, row.h);
    std::vector<double> dp, magnitude;
    double delta = 0, delta_magnitude = 0;
    for (std::size_t n = 0; n < row.p.size(); ++n) {
      const double* v = in_.v.row(row.b, (*row.keys)[n], row.g);
      dp.push_back(dot(d_out, v, shape_.value_dim));
      magnitude.push_back(dot_of_absolutes(d_out, v, shape_.value_dim));
      delta += row.p[n] * dp[n];
      delta_magnitude += row.p[n] * magnitude[n];
    }
    const double rounding = rounded_delta_unit(row);
    for (std::size_t n = 0; n < row.p.size(); ++n) {
      const std::int64_t j = (*row.keys)[n];
      const double ds = scale_ * row.slope[n] * row.p[n] * (dp[n] - delta);
      const double weight_unit = row.unit * row.slope[n] + (problem_.softcap ? 1 : 0);
      const double error = std::abs(scale_) * row.p[n] *
                           (weight_unit * std::abs(dp[n] - delta) +
                            row.slope[n] * (magnitude[n] + row.unit * delta_magnitude + rounding));
      add(results_.dq.row(row.b, row.i, row.h), results_.dq_unit.row(row.b, row.i, row.h), ds,
          error, in_.k.row(row.b, j, row.g), shape_.head_dim);
      add(results_.dk.row(row.b, j, row.g), results_.dk_unit.row(row.b, j, row.g), ds, error,
          in_.q.row(row.b, row.i, row.h), shape_.head_dim);
      add(results_.dv.row(row.b, j, row.g), results_.dv_unit.row(row.b, j, row.g), row.p[n],
          row.unit * row.p[n], d_out, shape_.value_dim);
    }
    if (in_.sinks.empty()) return;
    *results_.d_sinks.row(0, 0, row.h) -= row.p_sink * delta;
    *results_.d_sinks_unit.row(0, 0, row.h) += row.p_sink * (row.unit * delta_magnitude + rounding);
  }

  /// What rounding `out` to 16 bits does to delta.
  double rounded_delta_unit(const Row& row) const {
    const DType dtype = shape_.dtype;
    if (accumulator(dtype) == dtype) return 0;  // no more than what it is computed with
    const double* out = results_.out.row(row.b, row.i, row.h);
    const double* d_out = in_.d_out.row(row.b, row.i, row.h);
    const double magnitude = sum(shape_.value_dim, [&](std::int64_t d) {
      return std::abs(d_out[d]) * std::max(std::abs(out[d]), 0x1p-14);  // fp16 gets no finer below
    });
    return half_ulp(dtype) / (kGradientFactor * 0x1p-23) * magnitude;
  }

  const Problem& problem_;
  const OracleInputs& in_;
  const Shape shape_;
  const std::vector<std::vector<std::int64_t>> keys_;
  double scale_ = 1;
  OracleResults results_;
};

}  // namespace

bool sees(const Problem& problem, std::int64_t query, std::int64_t key) {
  return sees(problem.mask, token(problem, query), token(problem, key));
}

OracleInputs random_inputs(const Problem& problem, std::uint64_t seed) {
  const Shape& s = problem.shape;
  const std::int64_t tokens = problem.sequence.length;
  OracleInputs inputs;
  inputs.q = random_array(s.batch, tokens, s.heads, s.head_dim, s.dtype, 4 * seed);
  inputs.k = random_array(s.batch, tokens, s.kv_heads, s.head_dim, s.dtype, 4 * seed + 1);
  inputs.v = random_array(s.batch, tokens, s.kv_heads, s.value_dim, s.dtype, 4 * seed + 2);
  inputs.d_out = random_array(s.batch, tokens, s.heads, s.value_dim, s.dtype, 4 * seed + 3);
  if (problem.sinks) inputs.sinks = random_array(1, 1, s.heads, 1, DType::f32, ~seed).values;
  return inputs;
}

OracleResults oracle(const Problem& problem, const OracleInputs& inputs) {
  return Oracle(problem, inputs).run();
}

}  // namespace ringspan::attention
