// SPDX-License-Identifier: Apache-2.0
// Linear attention: the weight of a key is scale * phi(q).phi(k) with phi(x) = elu(x) + 1
// (Katharopoulos et al., Transformers are RNNs, 2020, eq. 7), and as such a weight falls apart into
// a factor of the query and one of the key, the sums over keys do not depend on the query:
//   out_i = phi(q_i) S_i / phi(q_i).z_i,  S_i = sum_j phi(k_j) v_j^T,  z_i = sum_j phi(k_j).
// Under a causal mask they grow from one query to the next, so that a block costs as much as it has
// tokens. Where a window moves both ends they are summed anew for every query. In fp64 inside; with
// weights instead of exponentials a partial result has max = 0 and merges like any other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/kernels/families.hpp"
#include "attention/kernels/row.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using Values = std::vector<double>;

Values load_row(const ConstTensorView& from, const Row& row) {
  Values values;
  attention::load_row(from, row, values);
  return values;
}

double phi(double x) { return x > 0 ? x + 1 : std::exp(x); }
double phi_slope(double x) { return x > 0 ? 1 : std::exp(x); }

Values phi(Values values) {
  for (double& value : values) value = phi(value);
  return values;
}

/// Sums over a range of tokens: S of features times values, z of weighted features.
class Sums {
 public:
  Sums(std::int64_t features, std::int64_t values) : z_(features), s_(features, Values(values)) {}

  void add(const Values& features, const Values& values, double weight) {
    for (std::size_t f = 0; f < features.size(); ++f) {
      z_[f] += weight * features[f];
      for (std::size_t d = 0; d < values.size(); ++d) s_[f][d] += features[f] * values[d];
    }
  }

  /// Makes it the sums over `range`: what is missing is added by add_token(token).
  template <typename AddToken>
  void cover(const Range& range, const AddToken& add_token) {
    if (covered_.first < range.first || covered_.end > range.end ||
        covered_.first >= covered_.end) {
      std::fill(z_.begin(), z_.end(), 0);
      for (Values& row : s_) std::fill(row.begin(), row.end(), 0);
      covered_ = {range.first, range.first};
    }
    for (std::int64_t t = covered_.first; t > range.first; --t) add_token(t - 1);
    for (std::int64_t t = covered_.end; t < range.end; ++t) add_token(t);
    covered_ = range;
  }

  const Values& z() const { return z_; }
  /// S times values, and features times S.
  double times(std::size_t feature, const Values& values) const { return dot(s_[feature], values); }
  double times(const Values& features, std::size_t value) const {
    double sum = 0;
    for (std::size_t f = 0; f < features.size(); ++f) sum += features[f] * s_[f][value];
    return sum;
  }

 private:
  Values z_;
  std::vector<Values> s_;  // [feature][value]
  Range covered_;
};

class LinearKernels final : public Kernels {
 public:
  explicit LinearKernels(comm::Device& device)
      : device_(device), rows_(make_reference_kernels(device)) {}

  void prepare(const Shape& shape) override { rows_->prepare(shape); }
  void require_possible(const Logits& logits) const override {
    RINGSPAN_REQUIRE(!logits.softcap, "linear attention has no logits that a softcap could bound");
    RINGSPAN_REQUIRE(logits.scale > 0, "linear attention: softmax_scale is ", logits.scale,
                     "; it multiplies weights, and must be positive");
  }
  std::int64_t workspace_bytes() const override { return rows_->workspace_bytes(); }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    for_each_head(block.q, block.k, block.tiles,
                  [&](const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t g) {
                    Sums keys(block.k.head_dim, block.v.head_dim);
                    for (std::int64_t i = 0; i < tile.queries.count; ++i) {
                      cover_keys(keys, tile, i, block.k, block.v, b, g);
                      const Row query{b, token(tile.queries, i), h};
                      const Values features = phi(load_row(block.q, query));
                      add_row(partial, query, keys, features, block.logits.scale);
                      device_.poll();
                    }
                  });
  }

  // With w the weight and e = exp(-lse): dw = e (d_out.v - delta), and the sums that the queries
  // need are those of keys, those that keys need are of queries that see them.
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    for_each_head(block.q, block.k, block.tiles,
                  [&](const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t g) {
                    Sums keys(block.k.head_dim, block.v.head_dim);
                    for (std::int64_t i = 0; i < tile.queries.count; ++i) {
                      cover_keys(keys, tile, i, block.k, block.v, b, g);
                      differentiate_query(block, keys, {b, token(tile.queries, i), h}, dq);
                      device_.poll();
                    }
                    Sums queries(block.q.head_dim, block.v.head_dim);
                    for (std::int64_t j = tile.keys.count - 1; j >= 0; --j) {
                      queries.cover(queries_of(tile, j), [&](std::int64_t i) {
                        const Row query{b, token(tile.queries, i), h};
                        Values features = phi(load_row(block.q, query));
                        const double e = inverse_sum(block.lse, query);
                        for (double& feature : features) feature *= e;
                        queries.add(features, load_row(block.d_out, query),
                                    load(block.delta, query));
                      });
                      differentiate_key(block, queries, {b, token(tile.keys, j), g}, dk, dv);
                      device_.poll();
                    }
                  });
  }

  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    rows_->delta(out, d_out, lse, sinks, delta, d_sinks);
  }
  void merge(const Partial& into, const Partial& from) override { rows_->merge(into, from); }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    rows_->finalize(partial, sinks, out, lse);
  }
  void copy(const ConstTensorView& from, const TensorView& to) override { rows_->copy(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    rows_->accumulate(from, to);
  }
  void fill(const TensorView& to, double value) override { rows_->fill(to, value); }

 private:
  /// Calls each(tile, batch entry, query head, KV head).
  template <typename Each>
  static void for_each_head(const ConstTensorView& q, const ConstTensorView& k,
                            std::span<const Tile> tiles, const Each& each) {
    for (const Tile& tile : tiles) {
      for (std::int64_t b = 0; b < q.batch; ++b) {
        for (std::int64_t h = 0; h < q.heads; ++h) each(tile, b, h, h / (q.heads / k.heads));
      }
    }
  }

  static void cover_keys(Sums& keys, const Tile& tile, std::int64_t i, const ConstTensorView& k,
                         const ConstTensorView& v, std::int64_t b, std::int64_t g) {
    keys.cover(keys_of(tile, i), [&](std::int64_t j) {
      const Row key{b, token(tile.keys, j), g};
      keys.add(phi(load_row(k, key)), load_row(v, key), 1);
    });
  }

  // A row all of whose weights are too small to be stored stays one that saw nothing.
  static void add_row(const Partial& partial, const Row& query, const Sums& keys,
                      const Values& features, double scale) {
    add(partial.sum, query, 0, scale * dot(features, keys.z()));
    if (load(partial.sum, query) == 0) return;
    store(partial.max, query, 0, 0);
    for (std::int64_t d = 0; d < partial.out.head_dim; ++d) {
      add(partial.out, query, d, scale * keys.times(features, d));
    }
  }

  /// 1 / sum of the weights, and 0 of rows that saw nothing.
  static double inverse_sum(const ConstTensorView& lse, const Row& query) {
    const double log_sum = load(lse, query);
    return std::isinf(log_sum) ? 0 : std::exp(-log_sum);
  }

  static void differentiate_query(const BackwardBlock& block, const Sums& keys, const Row& query,
                                  const TensorView& dq) {
    const Values q = load_row(block.q, query), d_out = load_row(block.d_out, query);
    const double e = block.logits.scale * inverse_sum(block.lse, query);
    const double delta = load(block.delta, query);
    for (std::size_t d = 0; d < q.size(); ++d) {
      const double d_phi = e * (keys.times(d, d_out) - delta * keys.z()[d]);
      add(dq, query, static_cast<std::int64_t>(d), d_phi * phi_slope(q[d]));
    }
  }

  static void differentiate_key(const BackwardBlock& block, const Sums& queries, const Row& key,
                                const TensorView& dk, const TensorView& dv) {
    const Values k = load_row(block.k, key), v = load_row(block.v, key), features = phi(k);
    for (std::size_t d = 0; d < k.size(); ++d) {
      const double d_phi = block.logits.scale * (queries.times(d, v) - queries.z()[d]);
      add(dk, key, static_cast<std::int64_t>(d), d_phi * phi_slope(k[d]));
    }
    for (std::size_t d = 0; d < v.size(); ++d) {
      add(dv, key, static_cast<std::int64_t>(d), block.logits.scale * queries.times(features, d));
    }
  }

  comm::Device& device_;
  std::unique_ptr<Kernels> rows_;  // what is the same for all kinds of attention
};

}  // namespace

std::unique_ptr<Kernels> make_linear_kernels(comm::Device& device) {
  require_host_memory("linear", device);
  return std::make_unique<LinearKernels>(device);
}

}  // namespace ringspan::attention
