// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/host_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attention/kernels/logit.hpp"
#include "attention/kernels/scalar.hpp"

namespace ringspan::attention {
namespace {

constexpr std::int64_t kPanelKeys = 128;

/// Element i of `count` is `step` behind the one before it, from element `offset` on.
template <typename Number>
void load_run(const ConstTensorView& from, std::int64_t offset, std::int64_t step,
              std::int64_t count, Number* to) {
  with_element(from.dtype, [&]<typename Element>(std::type_identity<Element>) {
    const Element* data = static_cast<const Element*>(from.data) + offset;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Number>(widen(data[i * step]));
  });
}

template <typename Number>
void store_run(const Number* from, const TensorView& to, std::int64_t offset, std::int64_t step,
               std::int64_t count) {
  with_element(to.dtype, [&]<typename Element>(std::type_identity<Element>) {
    Element* data = static_cast<Element*>(to.data) + offset;
    for (std::int64_t i = 0; i < count; ++i) data[i * step] = convert<Element>(from[i]);
  });
}

/// to += factor * from.
template <typename Number>
void add_scaled(Number factor, const Number* from, std::int64_t count, Number* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace

/// Some keys of a tile, of one head of one sequence.
template <typename Number>
struct HostScores<Number>::Panel {
  std::int64_t b, kv_head;
  Rows keys;
};

/// A query, and which keys of a panel it sees: [first, last).
template <typename Number>
struct HostScores<Number>::Row {
  std::int64_t b, token, head;
  std::int64_t first, last;
  const Rows& keys;

  std::int64_t count() const { return last - first; }
  template <typename View>
  std::int64_t offset(const View& view) const {
    return view.offset(b, token, head);
  }
  /// Where the first of the keys has its score.
  template <typename View>
  std::int64_t scores_offset(const View& view) const {
    return offset(view) + keys.first + keys.step * first;
  }
};

template <typename Number>
void HostScores<Number>::prepare(const Shape& shape) {
  const auto dim = static_cast<std::size_t>(std::max(shape.head_dim, shape.value_dim));
  if (query_.size() >= dim) return;
  for (auto* panel : {&panel_, &transposed_, &sums_}) panel->resize(dim * kPanelKeys);
  query_.resize(dim);
  products_.resize(kPanelKeys);
  weights_.resize(kPanelKeys);
}

template <typename Number>
std::int64_t HostScores<Number>::workspace_bytes() const {
  const std::size_t numbers =
      3 * panel_.size() + query_.size() + products_.size() + weights_.size();
  return static_cast<std::int64_t>(numbers * sizeof(Number));
}

/// begin(panel) once per panel, then each(panel, row) for all queries that see any of it; what
/// begin() returns is called when these are done.
template <typename Number>
template <typename Begin, typename Each>
void HostScores<Number>::for_each_row(const ConstTensorView& queries, std::int64_t kv_heads,
                                      std::span<const Tile> tiles, const Begin& begin,
                                      const Each& each) {
  const std::int64_t group = queries.heads / kv_heads;
  for (const Tile& tile : tiles) {
    for (std::int64_t i = 0; i < queries.batch * kv_heads; ++i) {
      for (std::int64_t from = 0; from < tile.keys.count; from += kPanelKeys) {
        const std::int64_t to = std::min(from + kPanelKeys, tile.keys.count);
        const Panel panel{i / kv_heads,
                          i % kv_heads,
                          {tile.keys.first + tile.keys.step * from, tile.keys.step, to - from}};
        const auto end = begin(panel);
        for (std::int64_t q = 0; q < tile.queries.count; ++q) {
          const std::int64_t first = std::max(q + tile.lo, from) - from;
          const std::int64_t last = std::min(q + tile.hi + 1, to) - from;
          if (first >= last) continue;
          const std::int64_t token = tile.queries.first + tile.queries.step * q;
          for (std::int64_t h = panel.kv_head * group; h < (panel.kv_head + 1) * group; ++h) {
            each(Row{panel.b, token, h, first, last, panel.keys});
          }
          device_.poll();
        }
        end();
      }
    }
  }
}

template <typename Number>
void HostScores<Number>::load_panel(const ConstTensorView& rows, const Panel& panel) {
  for (std::int64_t j = 0; j < panel.keys.count; ++j) {
    const std::int64_t token = panel.keys.first + panel.keys.step * j;
    load_run(rows, rows.offset(panel.b, token, panel.kv_head), 1, rows.head_dim,
             panel_.data() + j * rows.head_dim);
  }
}

template <typename Number>
void HostScores<Number>::transpose_panel(std::int64_t dim, std::int64_t keys) {
  for (std::int64_t j = 0; j < keys; ++j) {
    for (std::int64_t d = 0; d < dim; ++d) transposed_[d * kPanelKeys + j] = panel_[j * dim + d];
  }
}

/// products = query . keys of the transposed panel.
template <typename Number>
void HostScores<Number>::multiply(const Row& row, std::int64_t dim) {
  std::fill_n(products_.begin(), row.count(), Number(0));
  for (std::int64_t d = 0; d < dim; ++d) {
    add_scaled(query_[d], transposed_.data() + d * kPanelKeys + row.first, row.count(),
               products_.data());
  }
}

template <typename Number>
void HostScores<Number>::add_panel(const TensorView& to, const Panel& panel) {
  for (std::int64_t j = 0; j < panel.keys.count; ++j) {
    const std::int64_t token = panel.keys.first + panel.keys.step * j;
    const std::int64_t offset = to.offset(panel.b, token, panel.kv_head);
    load_run<Number>(to, offset, 1, to.head_dim, query_.data());
    add_scaled(Number(1), sums_.data() + j * to.head_dim, to.head_dim, query_.data());
    store_run(query_.data(), to, offset, 1, to.head_dim);
  }
}

template <typename Number>
void HostScores<Number>::scores(const ForwardBlock& block, const TensorView& scores) {
  const auto scale = static_cast<Number>(block.logits.scale);
  const std::int64_t dim = block.q.head_dim;
  const auto begin = [&](const Panel& panel) {
    load_panel(block.k, panel);
    transpose_panel(dim, panel.keys.count);
    return [] {};
  };
  for_each_row(block.q, block.k.heads, block.tiles, begin, [&](const Row& row) {
    load_run(block.q, row.offset(block.q), 1, dim, query_.data());
    multiply(row, dim);
    for (std::int64_t j = 0; j < row.count(); ++j) {
      Number s = scale * products_[j];
      if (block.logits.softcap) {
        const auto cap = static_cast<Number>(*block.logits.softcap);
        s = cap * std::tanh(s / cap);
      }
      products_[j] = s * std::numbers::log2e_v<Number>;
    }
    store_run(products_.data(), scores, row.scores_offset(scores), row.keys.step, row.count());
  });
}

template <typename Number>
void HostScores<Number>::max_rows(const ConstTensorView& scores, const Partial& partial) {
  const auto max_of_row = [&](std::int64_t offset) {
    return with_element(scores.dtype, [&]<typename Element>(std::type_identity<Element>) -> double {
      const Element* row = static_cast<const Element*>(scores.data) + offset;
      double max = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < scores.head_dim; ++j) {
        const double score = widen(row[j]);
        if (score > max || std::isnan(score)) max = score;  // and it stays NaN
      }
      return max;
    });
  };
  for (std::int64_t b = 0; b < scores.batch; ++b) {
    for (std::int64_t t = 0; t < scores.tokens; ++t) {
      for (std::int64_t h = 0; h < scores.heads; ++h) {
        store(partial.max.data, partial.max.dtype, partial.max.offset(b, t, h),
              max_of_row(scores.offset(b, t, h)));
      }
      device_.poll();
    }
  }
}

template <typename Number>
void HostScores<Number>::weigh(const ConstTensorView& scores, const ForwardBlock& block,
                               const Partial& partial) {
  const std::int64_t dim = block.v.head_dim;
  const auto begin = [&](const Panel& panel) {
    load_panel(block.v, panel);
    return [] {};
  };
  for_each_row(block.q, block.v.heads, block.tiles, begin, [&](const Row& row) {
    Number max, sum;
    load_run<Number>(partial.max, row.offset(partial.max), 1, 1, &max);
    load_run<Number>(partial.sum, row.offset(partial.sum), 1, 1, &sum);
    load_run(scores, row.scores_offset(scores), row.keys.step, row.count(), weights_.data());
    load_run<Number>(partial.out, row.offset(partial.out), 1, dim, query_.data());
    for (std::int64_t j = 0; j < row.count(); ++j) {
      const Number weight = std::exp2(weights_[j] - max);
      sum += weight;
      add_scaled(weight, panel_.data() + (row.first + j) * dim, dim, query_.data());
    }
    store_run(&sum, partial.sum, row.offset(partial.sum), 1, 1);
    store_run(query_.data(), partial.out, row.offset(partial.out), 1, dim);
  });
}

template <typename Number>
void HostScores<Number>::backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                                         const TensorView& dv, const TensorView& d_scores) {
  const auto scale = static_cast<Number>(block.logits.scale);
  const std::int64_t dim = block.v.head_dim;
  const auto begin = [&](const Panel& panel) {
    load_panel(block.v, panel);
    transpose_panel(dim, panel.keys.count);
    std::fill_n(sums_.begin(), panel.keys.count * dim, Number(0));
    return [this, panel, &dv] { add_panel(dv, panel); };
  };
  for_each_row(block.q, block.v.heads, block.tiles, begin, [&](const Row& row) {
    Number lse, delta;
    load_run(block.lse, row.offset(block.lse), 1, 1, &lse);
    load_run(block.delta, row.offset(block.delta), 1, 1, &delta);
    load_run(block.d_out, row.offset(block.d_out), 1, dim, query_.data());
    load_run(scores, row.scores_offset(scores), row.keys.step, row.count(), weights_.data());
    multiply(row, dim);
    for (std::int64_t j = 0; j < row.count(); ++j) {
      const Number s = weights_[j] * std::numbers::ln2_v<Number>;
      const Number t = block.logits.softcap ? s / static_cast<Number>(*block.logits.softcap) : 0;
      const Number p = softmax_weight(s, lse);
      add_scaled(p, query_.data(), dim, sums_.data() + (row.first + j) * dim);
      products_[j] = p * (products_[j] - delta) * (1 - t * t) * scale;
    }
    store_run(products_.data(), d_scores, row.scores_offset(d_scores), row.keys.step, row.count());
  });
}

template <typename Number>
void HostScores<Number>::backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                                       const TensorView& dq, const TensorView& dk) {
  const std::int64_t dim = block.k.head_dim;
  const auto begin = [&](const Panel& panel) {
    load_panel(block.k, panel);
    std::fill_n(sums_.begin(), panel.keys.count * dim, Number(0));
    return [this, panel, &dk] { add_panel(dk, panel); };
  };
  for_each_row(block.q, block.k.heads, block.tiles, begin, [&](const Row& row) {
    load_run(d_scores, row.scores_offset(d_scores), row.keys.step, row.count(), weights_.data());
    load_run(block.q, row.offset(block.q), 1, dim, query_.data());
    for (std::int64_t j = 0; j < row.count(); ++j) {
      add_scaled(weights_[j], query_.data(), dim, sums_.data() + (row.first + j) * dim);
    }
    load_run<Number>(dq, row.offset(dq), 1, dim, query_.data());
    for (std::int64_t j = 0; j < row.count(); ++j) {
      add_scaled(weights_[j], panel_.data() + (row.first + j) * dim, dim, query_.data());
    }
    store_run(query_.data(), dq, row.offset(dq), 1, dim);
  });
}

template class HostScores<float>;
template class HostScores<double>;

}  // namespace ringspan::attention
