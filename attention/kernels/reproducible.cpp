// SPDX-License-Identifier: Apache-2.0
// Attention whose results have the same bits on every number of ranks and in every schedule. A pair
// of query and key gives the same numbers wherever it is computed: fp64, one dimension after the
// other. All sums over pairs are reproducible (comm/reproducible_sum.hpp), so neither tiles nor
// blocks nor the order of ranks matter. The maximum of a row is rounded up to a multiple of 32,
// which moves sums by whole digits when it rises: nothing is rounded again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "attention/kernels/families.hpp"
#include "attention/kernels/host_movement.hpp"
#include "attention/kernels/logit.hpp"
#include "attention/kernels/row.hpp"
#include "comm/error.hpp"
#include "comm/reproducible_sum.hpp"

namespace ringspan::attention {
namespace {

using comm::ReproducibleSum;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kDigit = 32;          // bits
constexpr int kNegligibleDigit = -20;  // of an output, relative to 2^max

ReproducibleSum* sums(const TensorView& view, const Row& row) {
  return static_cast<ReproducibleSum*>(view.data) + view.offset(row.b, row.t, row.h);
}

/// The partial result of one row.
class PartialRow {
 public:
  PartialRow(const Partial& partial, const Row& row)
      : partial_(partial),
        row_(row),
        max_(load(partial.max, row)),
        sum_(*sums(partial.sum, row)),
        out_(sums(partial.out, row)) {}

  /// Sums are relative to a maximum no less than this from now on.
  void raise(double max) {
    if (!(max > max_) && !std::isnan(max)) return;
    if (max_ != kNothing && !std::isnan(max)) {
      const double digits = (max - max_) / kDigit;
      sum_.scale_down(digits);
      for (std::int64_t d = 0; d < dim(); ++d) out_[d].scale_down(digits);
    }
    max_ = max;
    store(partial_.max, row_, 0, max);
  }

  /// A key whose logit is log2(weight).
  void add(double logit, const std::vector<double>& v) {
    raise(std::isfinite(logit) ? kDigit * std::ceil(logit / kDigit) : kNaN);
    const double weight = std::isnan(max_) ? kNaN : weight_of(logit);
    sum_.add(weight);
    for (std::int64_t d = 0; d < dim(); ++d) out_[d].add(weight * v[d]);
  }

  void merge(const PartialRow& from) {
    if (from.max_ == kNothing) return;
    raise(from.max_);
    const double digits = std::isnan(max_) ? 0 : (max_ - from.max_) / kDigit;
    const auto add_scaled = [&](ReproducibleSum& to, ReproducibleSum part) {
      part.scale_down(digits);
      to.add(part);
    };
    add_scaled(sum_, from.sum_);
    for (std::int64_t d = 0; d < dim(); ++d) add_scaled(out_[d], from.out_[d]);
  }

 private:
  std::int64_t dim() const { return partial_.out.head_dim; }

  // The fraction comes first: it does not depend on the maximum, which then scales exactly.
  double weight_of(double logit) const {
    const double whole = std::ceil(logit), below = std::max(whole - max_, -2000.0);
    return std::ldexp(std::exp2(logit - whole), static_cast<int>(below));
  }

  const Partial& partial_;
  Row row_;
  double max_;
  ReproducibleSum& sum_;
  ReproducibleSum* out_;
};

class ReproducibleKernels final : public Kernels {
 public:
  explicit ReproducibleKernels(comm::Device& device) : device_(device) {}

  void prepare(const Shape& shape) override {
    RINGSPAN_REQUIRE(shape.reproducible,
                     "the reproducible kernels add up in wide sums: set Shape::reproducible, or "
                     "choose other kernels");
    RINGSPAN_REQUIRE(shape.dtype != DType::f64,
                     "the reproducible kernels keep 31 bits or more of each term, and refuse fp64 "
                     "tensors, which have 53");
    for (std::vector<double>* row : {&q_, &k_}) row->reserve(shape.head_dim);
    for (std::vector<double>* row : {&v_, &d_out_}) row->reserve(shape.value_dim);
  }
  std::int64_t workspace_bytes() const override {
    return static_cast<std::int64_t>(sizeof(double) * 2 * (q_.capacity() + v_.capacity()));
  }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    for_each_pair(block.q, block.k, block.tiles, [&](const Row& query, const Row& key) {
      load_row(block.k, key, k_);
      load_row(block.v, key, v_);
      PartialRow(partial, query)
          .add(logit(block.logits, dot(q_, k_)).value * std::numbers::log2e, v_);
    });
  }

  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    for_each_pair(block.q, block.k, block.tiles, [&](const Row& query, const Row& key) {
      const double lse = load(block.lse, query);
      if (lse == kNothing) return;
      load_row(block.k, key, k_);
      load_row(block.v, key, v_);
      load_row(block.d_out, query, d_out_);
      const auto [s, slope] = logit(block.logits, dot(q_, k_));
      const double p = softmax_weight(s, lse);
      const double ds =
          block.logits.scale * slope * p * (dot(d_out_, v_) - load(block.delta, query));
      ReproducibleSum *const to_q = sums(dq, query), *const to_k = sums(dk, key);
      for (std::size_t d = 0; d < k_.size(); ++d) {
        to_q[d].add(ds * k_[d]);
        to_k[d].add(ds * q_[d]);
      }
      ReproducibleSum* const to_v = sums(dv, key);
      for (std::size_t d = 0; d < v_.size(); ++d) to_v[d].add(p * d_out_[d]);
    });
  }

  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    for_each_row(out, [&](const Row& row) {
      const double of_row = load(lse, row);
      double sum = 0;
      for (std::int64_t d = 0; d < out.head_dim && of_row != kNothing; ++d) {
        sum += load(out, row, d) * load(d_out, row, d);
      }
      store(delta, row, 0, sum);
      if (!sinks || !d_sinks || of_row == kNothing) return;
      const double weight = softmax_weight(load(*sinks, {0, 0, row.h}), of_row);
      sums(*d_sinks, {0, 0, row.h})->add(-weight * load(delta, row));
    });
  }

  void merge(const Partial& into, const Partial& from) override {
    for_each_row(into.max,
                 [&](const Row& row) { PartialRow(into, row).merge(PartialRow(from, row)); });
  }

  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    for_each_row(out, [&](const Row& row) {
      const double seen = load(partial.max, row);
      double max = seen, sum = sums(partial.sum, row)->value();
      if (sinks && seen != kNothing) {
        const double sink = load(*sinks, {0, 0, row.h}) * std::numbers::log2e;
        max = std::max(seen, sink);
        sum = sum * std::exp2(seen - max) + std::exp2(sink - max);
      }
      const double weight = seen == kNothing ? 0 : std::exp2(seen - max) / sum;
      const ReproducibleSum* const from = sums(partial.out, row);
      for (std::int64_t d = 0; d < out.head_dim; ++d) {
        store(out, row, d, from[d].below(kNegligibleDigit) ? 0 : from[d].value() * weight);
      }
      if (!lse.data) return;
      store(lse, row, 0, seen == kNothing ? kNothing : (max + std::log2(sum)) * std::numbers::ln2);
    });
  }

  void copy(const ConstTensorView& from, const TensorView& to) override { copy_on_host(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    accumulate_on_host(from, to);
  }
  void fill(const TensorView& to, double value) override { fill_on_host(to, value); }

 private:
  /// Calls each(query row, key row) for all that see each other; q_ is the query's.
  template <typename Each>
  void for_each_pair(const ConstTensorView& q, const ConstTensorView& k,
                     std::span<const Tile> tiles, const Each& each) {
    const std::int64_t group = q.heads / k.heads;
    for (const Tile& tile : tiles) {
      for (std::int64_t bh = 0; bh < q.batch * q.heads; ++bh) {
        const std::int64_t b = bh / q.heads, h = bh % q.heads;
        for (std::int64_t i = 0; i < tile.queries.count; ++i) {
          const Row query{b, token(tile.queries, i), h};
          load_row(q, query, q_);
          const auto [first, end] = keys_of(tile, i);
          for (std::int64_t j = first; j < end; ++j) {
            each(query, Row{b, token(tile.keys, j), h / group});
          }
          device_.poll();
        }
      }
    }
  }

  comm::Device& device_;
  std::vector<double> q_, k_, v_, d_out_;
};

}  // namespace

std::unique_ptr<Kernels> make_reproducible_kernels(comm::Device& device) {
  return std::make_unique<ReproducibleKernels>(device);
}

}  // namespace ringspan::attention
