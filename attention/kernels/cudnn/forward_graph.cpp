// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cudnn/forward_graph.hpp"

#include <tuple>

namespace ringspan::attention::cudnn {
namespace {

constexpr std::int64_t kFirstScores = 100;  // ids of the scores between masks
constexpr std::int64_t kSoftmaxIn = 200, kSoftmaxOut = 201;

using Sizes = std::vector<std::int64_t>;

// cuDNN's order of axes is [batch][heads][tokens][dim].
Sizes strides_of(const ForwardShape::Strides& strides) {
  return {strides.batch, strides.head, strides.token, 1};
}

}  // namespace

ForwardGraph::ForwardGraph(std::shared_ptr<const Api> api, const ForwardShape& shape)
    : api_(std::move(api)), shape_(shape) {
  const ForwardShape& s = shape_;
  const int half = s.dtype == DType::bf16 ? kBfloat16 : kHalf;
  const auto input = [&](Id id, std::int64_t heads, std::int64_t tokens, std::int64_t dim,
                         const ForwardShape::Strides& strides) -> Descriptor& {
    return tensor(static_cast<std::int64_t>(id), half, {s.batch, heads, tokens, dim},
                  strides_of(strides), Place::device);
  };
  Descriptor& attention = add(Kind::attention_forward);
  attention.set(Attribute::attention_q, input(Id::q, s.heads, s.queries, s.head_dim, s.q));
  attention.set(Attribute::attention_k, input(Id::k, s.kv_heads, s.keys, s.head_dim, s.k));
  attention.set(Attribute::attention_v, input(Id::v, s.kv_heads, s.keys, s.value_dim, s.v));
  const ForwardShape::Strides packed{s.queries * s.heads * s.value_dim, s.heads * s.value_dim,
                                     s.value_dim};
  attention.set(Attribute::attention_out, input(Id::out, s.heads, s.queries, s.value_dim, packed));
  attention.set(Attribute::attention_scale, value(Id::scale, kFloat));
  add_softmax(attention);
  if (s.lower || s.upper) add_mask(attention);
  attention.finalize("attention");
  Descriptor& graph = add(Kind::graph);
  graph.set(Attribute::graph_operations, attention);
  graph.finalize("graph");
  graph_ = &graph;
}

Descriptor& ForwardGraph::tensor(std::int64_t id, int type, Sizes dimensions, Sizes strides,
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

Descriptor& ForwardGraph::scores(std::int64_t id) {
  const auto& [batch, heads, queries, keys] =
      std::tie(shape_.batch, shape_.heads, shape_.queries, shape_.keys);
  return tensor(id, kFloat, {batch, heads, queries, keys},
                {heads * queries * keys, queries * keys, keys, 1}, Place::nowhere);
}

// Named instead of the statistics alone, because that makes them logarithms to base 2.
void ForwardGraph::add_softmax(Descriptor& attention) {
  const ForwardShape& s = shape_;
  constexpr bool yes = true;
  Descriptor& softmax = add(Kind::softmax);
  softmax.set(Attribute::softmax_in, scores(kSoftmaxIn));
  softmax.set(Attribute::softmax_out, scores(kSoftmaxOut));
  softmax.set(
      Attribute::softmax_statistics,
      tensor(static_cast<std::int64_t>(Id::statistics), kFloat, {s.batch, s.heads, s.queries, 1},
             {s.queries * s.heads, 1, s.heads, 1}, Place::device));
  softmax.set(Attribute::softmax_base_2, Type::boolean, yes);
  softmax.finalize("softmax");
  attention.set(Attribute::attention_softmax, softmax);
}

// Key j of query i stays if i + right_shift >= j, and if j + left_bound > i.
void ForwardGraph::add_mask(Descriptor& attention) {
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
  attention.set(Attribute::attention_scores_graph, graph);
  attention.set(Attribute::attention_scores_in, Type::int64, kFirstScores);
  attention.set(Attribute::attention_scores_out, Type::int64, last);
}

std::vector<Descriptor> ForwardGraph::engines(const Descriptor& device) const {
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
