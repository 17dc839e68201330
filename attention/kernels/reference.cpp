// SPDX-License-Identifier: Apache-2.0
// The formulas of attention as they are written down, one number at a time, in fp64: what other
// kernels are compared with, and the only family for fp64 tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "attention/kernels/families.hpp"
#include "attention/kernels/host_movement.hpp"
#include "attention/kernels/host_scores.hpp"
#include "attention/kernels/logit.hpp"
#include "attention/kernels/row.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

double dot(const ConstTensorView& a, const Row& a_row, const ConstTensorView& b, const Row& b_row) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.head_dim; ++d) sum += load(a, a_row, d) * load(b, b_row, d);
  return sum;
}

void add(const TensorView& to, const Row& row, const std::vector<double>& sums) {
  for (std::int64_t d = 0; d < to.head_dim; ++d) add(to, row, d, sums[d]);
}

/// 2^(from - to), the factor that takes sums relative to one maximum to another; nothing stays
/// nothing.
double rescale(double from, double to) { return from == kNothing ? 0 : std::exp2(from - to); }

class ReferenceKernels final : public Kernels {
 public:
  explicit ReferenceKernels(comm::Device& device) : device_(device) {}

  void prepare(const Shape& shape) override {
    require_plain_sums("reference", shape);
    key_sums_.reserve(shape.head_dim);
    value_sums_.reserve(shape.value_dim);
  }

  std::int64_t workspace_bytes() const override {
    return static_cast<std::int64_t>((key_sums_.capacity() + value_sums_.capacity()) *
                                     sizeof(double)) +
           scores_.workspace_bytes();
  }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    for (const Tile& tile : block.tiles) {
      for (std::int64_t b = 0; b < block.q.batch; ++b) {
        for (std::int64_t h = 0; h < block.q.heads; ++h) {
          for (std::int64_t i = 0; i < tile.queries.count; ++i) {
            forward_row(block, tile, i, {b, token(tile.queries, i), h}, partial);
            device_.poll();  // a row of a long sequence takes a while
          }
        }
      }
    }
  }

  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    for (const Tile& tile : block.tiles) {
      for (std::int64_t b = 0; b < block.q.batch; ++b) {
        for (std::int64_t h = 0; h < block.q.heads; ++h) {
          for (std::int64_t i = 0; i < tile.queries.count; ++i) {
            backward_query(block, tile, i, {b, token(tile.queries, i), h}, dq);
            device_.poll();
          }
        }
        for (std::int64_t g = 0; g < block.k.heads; ++g) {
          for (std::int64_t j = 0; j < tile.keys.count; ++j) {
            backward_key(block, tile, j, {b, token(tile.keys, j), g}, dk, dv);
            device_.poll();
          }
        }
      }
    }
  }

  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    for_each_row(out, [&](const Row& row) {
      const bool saw_nothing = load(lse, row) == kNothing;  // the row may be padding and hold NaN
      store(delta, row, 0, saw_nothing ? 0 : dot(out, row, d_out, row));
    });
    if (!sinks || !d_sinks) return;
    for (std::int64_t h = 0; h < out.heads; ++h) {
      double sum = 0;
      for_each_row(delta, [&](const Row& row) {
        if (row.h != h || load(lse, row) == kNothing) return;
        sum += softmax_weight(load(*sinks, {0, 0, h}), load(lse, row)) * load(delta, row);
      });
      store(*d_sinks, {0, 0, h}, 0, load(*d_sinks, {0, 0, h}) - sum);
    }
  }

  void merge(const Partial& into, const Partial& from) override {
    for_each_row(into.max, [&](const Row& row) {
      const double a = load(into.max, row), b = load(from.max, row);
      if (b == kNothing) return;
      const double max = std::max(a, b), keep = rescale(a, max), take = rescale(b, max);
      store(into.max, row, 0, max);
      store(into.sum, row, 0, keep * load(into.sum, row) + take * load(from.sum, row));
      for (std::int64_t d = 0; d < into.out.head_dim; ++d) {
        store(into.out, row, d, keep * load(into.out, row, d) + take * load(from.out, row, d));
      }
    });
  }

  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    for_each_row(out, [&](const Row& row) {
      const double seen = load(partial.max, row);
      double max = seen, sum = load(partial.sum, row);
      if (sinks) {
        const double sink = load(*sinks, {0, 0, row.h}) * std::numbers::log2e;
        max = std::max(seen, sink);
        sum = sum * rescale(seen, max) + rescale(sink, max);
      }
      const bool saw_nothing = seen == kNothing;
      const double weight = saw_nothing ? 0 : rescale(seen, max) / sum;
      for (std::int64_t d = 0; d < out.head_dim; ++d) {
        store(out, row, d, load(partial.out, row, d) * weight);
      }
      if (!lse.data) return;
      store(lse, row, 0, saw_nothing ? kNothing : (max + std::log2(sum)) * std::numbers::ln2);
    });
  }

  void copy(const ConstTensorView& from, const TensorView& to) override { copy_on_host(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    accumulate_on_host(from, to);
  }
  void fill(const TensorView& to, double value) override { fill_on_host(to, value); }

  ScoreKernels* scores() override { return &scores_; }

 private:
  void forward_row(const ForwardBlock& block, const Tile& tile, std::int64_t i, const Row& query,
                   const Partial& partial) {
    double max = load(partial.max, query), sum = load(partial.sum, query);
    value_sums_.clear();
    for (std::int64_t d = 0; d < block.v.head_dim; ++d) {
      value_sums_.push_back(load(partial.out, query, d));
    }
    const std::int64_t group = block.q.heads / block.k.heads;
    const auto [first, end] = keys_of(tile, i);
    for (std::int64_t j = first; j < end; ++j) {
      const Row key{query.b, token(tile.keys, j), query.h / group};
      double s = logit(block.logits, dot(block.q, query, block.k, key)).value * std::numbers::log2e;
      const double stored = partial.max.dtype == DType::f64 ? s : static_cast<float>(s);
      // Out there fp32 counts in twos and more, and 2^(s - stored) might be beyond it.
      if (std::abs(s) > 0x1p24) s = stored;
      // The maximum as it will be stored, so that the sums stay relative to exactly that.
      const double raised = std::max(max, stored);
      const double keep = rescale(max, raised), p = std::exp2(s - raised);
      max = raised;
      sum = keep * sum + p;
      for (std::int64_t d = 0; d < block.v.head_dim; ++d) {
        value_sums_[d] = keep * value_sums_[d] + p * load(block.v, key, d);
      }
    }
    store(partial.max, query, 0, max);
    store(partial.sum, query, 0, sum);
    for (std::int64_t d = 0; d < block.v.head_dim; ++d) {
      store(partial.out, query, d, value_sums_[d]);
    }
  }

  /// The weight of a key for a query, and the gradient of their q.k.
  struct Weight {
    double p, ds;
  };

  static Weight weight(const BackwardBlock& block, const Row& query, const Row& key) {
    const double lse = load(block.lse, query);
    if (lse == kNothing) return {0, 0};
    const auto [s, slope] = logit(block.logits, dot(block.q, query, block.k, key));
    const double p = softmax_weight(s, lse);
    const double dp = dot(block.d_out, query, block.v, key);
    return {p, block.logits.scale * slope * p * (dp - load(block.delta, query))};
  }

  void backward_query(const BackwardBlock& block, const Tile& tile, std::int64_t i,
                      const Row& query, const TensorView& dq) {
    key_sums_.assign(block.k.head_dim, 0);
    const std::int64_t group = block.q.heads / block.k.heads;
    const auto [first, end] = keys_of(tile, i);
    for (std::int64_t j = first; j < end; ++j) {
      const Row key{query.b, token(tile.keys, j), query.h / group};
      const double ds = weight(block, query, key).ds;
      for (std::int64_t d = 0; d < block.k.head_dim; ++d) {
        key_sums_[d] += ds * load(block.k, key, d);
      }
    }
    add(dq, query, key_sums_);
  }

  void backward_key(const BackwardBlock& block, const Tile& tile, std::int64_t j, const Row& key,
                    const TensorView& dk, const TensorView& dv) {
    key_sums_.assign(block.k.head_dim, 0);
    value_sums_.assign(block.v.head_dim, 0);
    const std::int64_t group = block.q.heads / block.k.heads;
    const auto [first, end] = queries_of(tile, j);
    for (std::int64_t i = first; i < end; ++i) {
      for (std::int64_t h = key.h * group; h < (key.h + 1) * group; ++h) {
        const Row query{key.b, token(tile.queries, i), h};
        const auto [p, ds] = weight(block, query, key);
        for (std::int64_t d = 0; d < block.k.head_dim; ++d) {
          key_sums_[d] += ds * load(block.q, query, d);
        }
        for (std::int64_t d = 0; d < block.v.head_dim; ++d) {
          value_sums_[d] += p * load(block.d_out, query, d);
        }
      }
    }
    add(dk, key, key_sums_);
    add(dv, key, value_sums_);
  }

  comm::Device& device_;
  std::vector<double> key_sums_, value_sums_;
  HostScores<double> scores_{device_};
};

}  // namespace

std::unique_ptr<Kernels> make_reference_kernels(comm::Device& device) {
  return std::make_unique<ReferenceKernels>(device);
}

}  // namespace ringspan::attention
