// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/cudnn_tile.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "attention/kernels/scalar.hpp"

namespace emulation::cudnn {
namespace {

using ringspan::attention::Bf16;
using ringspan::attention::F16;

/// [batch][heads][tokens][elements], as its descriptor says.
class TensorOf {
 public:
  TensorOf(const Node* node, const Pointers& pointers)
      : sizes(node->all<std::int64_t>(Attribute::tensor_dimensions)),
        strides_(node->all<std::int64_t>(Attribute::tensor_strides)),
        type_(node->one<int>(Attribute::tensor_data_type)),
        data_(pointers.at(node->one<std::int64_t>(Attribute::tensor_id))) {
    if (reinterpret_cast<std::uintptr_t>(data_) %
        node->one<std::uint64_t>(Attribute::tensor_alignment))
      throw std::out_of_range("a tensor that is not aligned as its descriptor says");
  }

  double get(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d = 0) const {
    const std::int64_t at = offset(b, h, t, d);
    if (type_ == kBfloat16) return widen(static_cast<const Bf16*>(data_)[at]);
    if (type_ == kHalf) return widen(static_cast<const F16*>(data_)[at]);
    if (type_ == kInt32) return static_cast<const std::int32_t*>(data_)[at];
    return static_cast<const float*>(data_)[at];
  }
  void put(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d, double value) const {
    const std::int64_t at = offset(b, h, t, d);
    using ringspan::attention::convert;
    if (type_ == kBfloat16) static_cast<Bf16*>(data_)[at] = convert<Bf16>(value);
    if (type_ == kHalf) static_cast<F16*>(data_)[at] = convert<F16>(value);
    if (type_ == kFloat) static_cast<float*>(data_)[at] = static_cast<float>(value);
  }

  const std::vector<std::int64_t> sizes;

 private:
  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) const {
    return b * strides_[0] + h * strides_[1] + t * strides_[2] + d * strides_[3];
  }

  const std::vector<std::int64_t> strides_;
  const int type_;
  void* const data_;
};

struct Mask {
  bool is_upper;
  double bound, fill;
};

std::vector<Mask> masks(const Node* graph, const Pointers& pointers) {
  std::vector<Mask> masks;
  if (!graph) return masks;
  for (const Node* mask : graph->all<const Node*>(Attribute::graph_operations)) {
    const bool is_upper = mask->one<int>(Attribute::mask_comparison) == kGreaterOrEqual;
    const TensorOf bound(
        mask->node(is_upper ? Attribute::mask_right_shift : Attribute::mask_left_bound), pointers);
    masks.push_back({is_upper, bound.get(0, 0, 0),
                     TensorOf(mask->node(Attribute::mask_fill), pointers).get(0, 0, 0)});
  }
  return masks;
}

/// What both passes have: the logits of one row.
struct Logits {
  std::vector<double> of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    std::vector<double> row(k.sizes[2]);
    for (std::int64_t j = 0; j < k.sizes[2]; ++j) {
      for (std::int64_t d = 0; d < k.sizes[3]; ++d)
        row[j] += scale * q.get(b, h, i, d) * k.get(b, h / group, j, d);
      for (const Mask& mask : masks)
        if (mask.is_upper ? i + mask.bound < j : j + mask.bound <= i) row[j] = mask.fill;
    }
    return row;
  }

  TensorOf q, k;
  std::int64_t group;
  double scale;
  std::vector<Mask> masks;
};

template <typename Row>
void for_each_row(const TensorOf& q, const Row& row) {
  for (std::int64_t b = 0; b < q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < q.sizes[1]; ++h)
      for (std::int64_t i = 0; i < q.sizes[2]; ++i) row(b, h, i);
}

std::function<void()> forward(const Node* node, const Pointers& pointers) {
  const auto tensor = [&](Attribute name) { return TensorOf(node->node(name), pointers); };
  const TensorOf q = tensor(Attribute::attention_q), k = tensor(Attribute::attention_k),
                 v = tensor(Attribute::attention_v), out = tensor(Attribute::attention_out);
  const Node* const softmax = node->node(Attribute::attention_softmax);
  const TensorOf statistics(softmax->node(Attribute::softmax_statistics), pointers);
  const double unit = softmax->one<bool>(Attribute::softmax_base_2) ? std::log(2.0) : 1;
  const Logits logits{q, k, q.sizes[1] / k.sizes[1],
                      tensor(Attribute::attention_scale).get(0, 0, 0),
                      masks(node->node(Attribute::attention_scores_graph), pointers)};
  const auto row = [=](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::vector<double> row = logits.of(b, h, i);
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    statistics.put(b, h, i, 0, std::log(sum) / unit);
    for (std::int64_t d = 0; d < v.sizes[3]; ++d) {
      double value = 0;
      for (std::size_t j = 0; j < row.size(); ++j)
        value += std::exp(row[j]) * v.get(b, h / logits.group, j, d);
      out.put(b, h, i, d, sum > 0 ? value / sum : 0);
    }
  };
  return [=] { for_each_row(q, row); };
}

/// A gradient, rounded once.
class Sums {
 public:
  explicit Sums(TensorOf to)
      : to_(std::move(to)), sums_(to_.sizes[0] * to_.sizes[1] * to_.sizes[2] * to_.sizes[3]) {}

  double& at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) {
    return sums_[((b * to_.sizes[1] + h) * to_.sizes[2] + t) * to_.sizes[3] + d];
  }
  void put() {
    for_each_row(to_, [&](std::int64_t b, std::int64_t h, std::int64_t t) {
      for (std::int64_t d = 0; d < to_.sizes[3]; ++d) to_.put(b, h, t, d, at(b, h, t, d));
    });
  }

 private:
  const TensorOf to_;
  std::vector<double> sums_;
};

std::function<void()> backward(const Node* node, const Pointers& pointers) {
  const auto tensor = [&](Attribute name) { return TensorOf(node->node(name), pointers); };
  const TensorOf q = tensor(Attribute::backward_q), k = tensor(Attribute::backward_k),
                 v = tensor(Attribute::backward_v), out = tensor(Attribute::backward_out),
                 d_out = tensor(Attribute::backward_d_out),
                 statistics = tensor(Attribute::backward_statistics);
  const Sums zeros[] = {Sums(tensor(Attribute::backward_dq)), Sums(tensor(Attribute::backward_dk)),
                        Sums(tensor(Attribute::backward_dv))};
  const Logits logits{q, k, q.sizes[1] / k.sizes[1], tensor(Attribute::backward_scale).get(0, 0, 0),
                      masks(node->node(Attribute::backward_scores_graph), pointers)};
  const auto add_row = [=](Sums& dq, Sums& dk, Sums& dv, std::int64_t b, std::int64_t h,
                           std::int64_t i) {
    const std::vector<double> row = logits.of(b, h, i);
    const std::int64_t g = h / logits.group;
    double delta = 0;
    for (std::int64_t d = 0; d < v.sizes[3]; ++d)
      delta += out.get(b, h, i, d) * d_out.get(b, h, i, d);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double weight = std::exp(row[j] - statistics.get(b, h, i));
      double d_weight = -delta;
      for (std::int64_t d = 0; d < v.sizes[3]; ++d) {
        d_weight += d_out.get(b, h, i, d) * v.get(b, g, j, d);
        dv.at(b, g, j, d) += weight * d_out.get(b, h, i, d);
      }
      for (std::int64_t d = 0; d < q.sizes[3]; ++d) {
        dq.at(b, h, i, d) += logits.scale * weight * d_weight * k.get(b, g, j, d);
        dk.at(b, g, j, d) += logits.scale * weight * d_weight * q.get(b, h, i, d);
      }
    }
  };
  return [=, dq = zeros[0], dk = zeros[1], dv = zeros[2]]() mutable {
    for_each_row(q, [&](auto... at) { add_row(dq, dk, dv, at...); });
    for (Sums* sums : {&dq, &dk, &dv}) sums->put();
  };
}

}  // namespace

std::function<void()> bind_attention(const Node& node, const Pointers& pointers) {
  return node.kind == Kind::attention_forward ? forward(&node, pointers)
                                              : backward(&node, pointers);
}

}  // namespace emulation::cudnn
