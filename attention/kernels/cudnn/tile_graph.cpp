// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cudnn/tile_graph.hpp"

#include <tuple>

namespace ringspan::attention::cudnn {
namespace {

constexpr std::int64_t kFirstScores = 100;  // ids of the scores between masks
constexpr std::int64_t kSoftmaxIn = 200, kSoftmaxOut = 201;

using Sizes = std::vector<std::int64_t>;

// cuDNN's order of axes is [batch][heads][tokens][dim].
Sizes strides_of(const TileShape::Strides& strides) {
  return {strides.batch, strides.head, strides.token, 1};
}

}  // namespace

TileGraph::TileGraph(std::shared_ptr<const Api> api, const TileShape& shape)
    : api_(std::move(api)), shape_(shape) {
  Descriptor& attention = shape.pass == TileShape::Pass::forward ? forward() : backward();
  attention.finalize("attention");
  Descriptor& graph = add(Kind::graph);
  graph.set(Attribute::graph_operations, attention);
  graph.finalize("graph");
  graph_ = &graph;
}

Descriptor& TileGraph::forward() {
  const TileShape& s = shape_;
  Descriptor& attention = add(Kind::attention_forward);
  attention.set(Attribute::attention_q, rows(Id::q, s.heads, s.queries, s.head_dim, s.q));
  attention.set(Attribute::attention_k, rows(Id::k, s.kv_heads, s.keys, s.head_dim, s.k));
  attention.set(Attribute::attention_v, rows(Id::v, s.kv_heads, s.keys, s.value_dim, s.v));
  attention.set(Attribute::attention_out, packed(Id::out, s.heads, s.queries, s.value_dim));
  attention.set(Attribute::attention_scale, value(Id::scale, kFloat));
  attention.set(Attribute::attention_softmax, softmax());
  add_mask(attention, Attribute::attention_scores_graph, Attribute::attention_scores_in,
           Attribute::attention_scores_out);
  return attention;
}

Descriptor& TileGraph::backward() {
  const TileShape& s = shape_;
  Descriptor& attention = add(Kind::attention_backward);
  attention.set(Attribute::backward_q, rows(Id::q, s.heads, s.queries, s.head_dim, s.q));
  attention.set(Attribute::backward_k, rows(Id::k, s.kv_heads, s.keys, s.head_dim, s.k));
  attention.set(Attribute::backward_v, rows(Id::v, s.kv_heads, s.keys, s.value_dim, s.v));
  attention.set(Attribute::backward_d_out,
                rows(Id::d_out, s.heads, s.queries, s.value_dim, s.d_out));
  attention.set(Attribute::backward_out, packed(Id::out, s.heads, s.queries, s.value_dim));
  attention.set(Attribute::backward_statistics, statistics());
  attention.set(Attribute::backward_scale, value(Id::scale, kFloat));
  attention.set(Attribute::backward_dq, packed(Id::dq, s.heads, s.queries, s.head_dim));
  attention.set(Attribute::backward_dk, packed(Id::dk, s.kv_heads, s.keys, s.head_dim));
  attention.set(Attribute::backward_dv, packed(Id::dv, s.kv_heads, s.keys, s.value_dim));
  add_mask(attention, Attribute::backward_scores_graph, Attribute::backward_scores_in,
           Attribute::backward_scores_out);
  return attention;
}

Descriptor& TileGraph::rows(Id id, std::int64_t heads, std::int64_t tokens, std::int64_t dim,
                            const TileShape::Strides& strides) {
  return tensor(static_cast<std::int64_t>(id), shape_.dtype == DType::bf16 ? kBfloat16 : kHalf,
                {shape_.batch, heads, tokens, dim}, strides_of(strides), Place::device);
}

Descriptor& TileGraph::packed(Id id, std::int64_t heads, std::int64_t tokens, std::int64_t dim) {
  return rows(id, heads, tokens, dim, {tokens * heads * dim, heads * dim, dim});
}

Descriptor& TileGraph::statistics() {
  const TileShape& s = shape_;
  return tensor(static_cast<std::int64_t>(Id::statistics), kFloat, {s.batch, s.heads, s.queries, 1},
                {s.queries * s.heads, 1, s.heads, 1}, Place::device);
}

Descriptor& TileGraph::tensor(std::int64_t id, int type, Sizes dimensions, Sizes strides,
                              Place place) {
  Descriptor& tensor = add(Kind::tensor);
  constexpr bool yes = true;
  const std::int64_t alignment = place == Place::device ? 16 : 4;  // bytes
  tensor.set(Attribute::tensor_id, Type::int64, id);
  tensor.set(Attribute::tensor_data_type, Type::data_type, type);
  tensor.set(Attribute::tensor_dimensions, Type::int64, std::span<const std::int64_t>(dimensions));
  tensor.set(Attribute::tensor_strides, Type::int64, std::span<const std::int64_t>(strides));
  tensor.set(Attribute::tensor_alignment, Type::int64, alignment);
  if (place == Place::nowhere) tensor.set(Attribute::tensor_virtual, Type::boolean, yes);
  if (place == Place::host) tensor.set(Attribute::tensor_by_value, Type::boolean, yes);
  tensor.finalize("tensor");
  return tensor;
}

Descriptor& TileGraph::scores(std::int64_t id) {
  const auto& [batch, heads, queries, keys] =
      std::tie(shape_.batch, shape_.heads, shape_.queries, shape_.keys);
  return tensor(id, kFloat, {batch, heads, queries, keys},
                {heads * queries * keys, queries * keys, keys, 1}, Place::nowhere);
}

// Named instead of the statistics alone, because that makes them logarithms to base 2.
Descriptor& TileGraph::softmax() {
  constexpr bool yes = true;
  Descriptor& softmax = add(Kind::softmax);
  softmax.set(Attribute::softmax_in, scores(kSoftmaxIn));
  softmax.set(Attribute::softmax_out, scores(kSoftmaxOut));
  softmax.set(Attribute::softmax_statistics, statistics());
  softmax.set(Attribute::softmax_base_2, Type::boolean, yes);
  softmax.finalize("softmax");
  return softmax;
}

// Key j of query i stays if i + right_shift >= j, and if j + left_bound > i.
void TileGraph::add_mask(Descriptor& attention, Attribute scores_graph, Attribute scores_in,
                         Attribute scores_out) {
  if (!shape_.lower && !shape_.upper) return;
  Descriptor& fill = value(Id::fill, kFloat);
  std::vector<DescriptorPointer> masks;
  Descriptor* from = &scores(kFirstScores);
  std::int64_t last = kFirstScores;
  const auto bound = [&](int comparison, Attribute attribute, Id id) {
    Descriptor& to = scores(++last);
    Descriptor& mask = add(Kind::band_mask);
    mask.set(Attribute::mask_in, *from);
    mask.set(Attribute::mask_fill, fill);
    mask.set(Attribute::mask_out, to);
    mask.set(Attribute::mask_comparison, Type::pointwise_mode, comparison);
    mask.set(attribute, value(id, kInt32));
    mask.finalize("band");
    masks.push_back(mask.pointer());
    from = &to;
  };
  if (shape_.upper) bound(kGreaterOrEqual, Attribute::mask_right_shift, Id::right_shift);
  if (shape_.lower) bound(kGreater, Attribute::mask_left_bound, Id::left_bound);
  Descriptor& graph = add(Kind::graph);
  graph.set(Attribute::graph_operations, Type::descriptor,
            std::span<const DescriptorPointer>(masks));
  graph.finalize("graph of masks");
  attention.set(scores_graph, graph);
  attention.set(scores_in, Type::int64, kFirstScores);
  attention.set(scores_out, Type::int64, last);
}

std::vector<Descriptor> TileGraph::engines(const Descriptor& device) const {
  for (const int mode : {kModeA, kModeFallback}) {
    Descriptor heuristics(api_, Kind::heuristics);
    heuristics.set(Attribute::heuristics_graph, *graph_);
    heuristics.set(Attribute::heuristics_mode, Type::heuristic_mode, mode);
    heuristics.set(Attribute::heuristics_device, device);
    heuristics.finalize("heuristics");
    std::int64_t count = 0;
    check(*api_,
          api_->get(heuristics.pointer(), Attribute::heuristics_results, Type::descriptor, 0,
                    &count, nullptr),
          "number of engines");
    std::vector<Descriptor> configs;
    std::vector<DescriptorPointer> pointers;
    for (std::int64_t i = 0; i < count; ++i)
      pointers.push_back(configs.emplace_back(api_, Kind::engine_config).pointer());
    if (count == 0) continue;
    check(*api_,
          api_->get(heuristics.pointer(), Attribute::heuristics_results, Type::descriptor, count,
                    &count, pointers.data()),
          "engines");
    while (std::ssize(configs) > count) configs.pop_back();
    return configs;
  }
  return {};
}

Descriptor describe_device(const std::shared_ptr<const Api>& api, HandlePointer handle) {
  Descriptor device(api, Kind::device_properties);
  device.set(Attribute::device_handle, Type::handle, handle);
  device.finalize("device");
  return device;
}

Descriptor describe_device(const std::shared_ptr<const Api>& api, const std::string& json) {
  Descriptor device(api, Kind::device_properties);
  device.set(Attribute::device_json, Type::character, std::span<const char>(json));
  device.finalize("device");
  return device;
}

}  // namespace ringspan::attention::cudnn
