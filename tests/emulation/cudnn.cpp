// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph interface on the emulated driver: of all graphs, tiles of attention with bands,
// computed in fp64 from what the descriptors say. It takes none that lacks what cuDNN needs, and
// queues on the stream of the handle.
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/emulation/cudnn_tile.hpp"

using namespace emulation::cudnn;

struct cudnnContext {
  CUstream_st* stream = nullptr;
};

extern "C" int cuLaunchHostFunc(CUstream_st*, void (*)(void*), void*);

namespace {

constexpr Status kBadParameter = 2000;
constexpr std::int64_t kWorkspaceBytes = 64;

std::size_t bytes_of(Type type) {
  if (type == Type::boolean || type == Type::character) return 1;
  const bool is_enumerator =
      type == Type::data_type || type == Type::heuristic_mode || type == Type::pointwise_mode;
  return is_enumerator ? sizeof(int) : sizeof(void*);
}

/// The operation of a graph; null if it is none of these.
const Node* attention_of(const Node* graph) {
  const auto operations = graph->all<const Node*>(Attribute::graph_operations);
  if (operations.size() != 1) return nullptr;
  const Kind kind = operations[0]->kind;
  return kind == Kind::attention_forward || kind == Kind::attention_backward ? operations[0]
                                                                             : nullptr;
}

bool has_all(const Node& node, std::initializer_list<Attribute> attributes) {
  for (const Attribute attribute : attributes)
    if (!node.attributes.contains(attribute)) return false;
  return true;
}

bool is_complete(const Node& node) {
  switch (node.kind) {
    case Kind::tensor:
      return has_all(node, {Attribute::tensor_id, Attribute::tensor_data_type,
                            Attribute::tensor_alignment}) &&
             node.all<std::int64_t>(Attribute::tensor_dimensions).size() == 4 &&
             node.all<std::int64_t>(Attribute::tensor_strides).size() == 4;
    case Kind::attention_forward:
      return has_all(node, {Attribute::attention_q, Attribute::attention_k, Attribute::attention_v,
                            Attribute::attention_out, Attribute::attention_scale,
                            Attribute::attention_softmax});
    case Kind::attention_backward:
      return has_all(
          node, {Attribute::backward_q, Attribute::backward_k, Attribute::backward_v,
                 Attribute::backward_out, Attribute::backward_d_out, Attribute::backward_statistics,
                 Attribute::backward_scale, Attribute::backward_dq, Attribute::backward_dk,
                 Attribute::backward_dv});
    case Kind::softmax:
      return has_all(
          node, {Attribute::softmax_in, Attribute::softmax_out, Attribute::softmax_statistics});
    case Kind::band_mask:
      return has_all(node, {Attribute::mask_in, Attribute::mask_fill, Attribute::mask_out,
                            Attribute::mask_comparison}) &&
             has_all(node, {node.one<int>(Attribute::mask_comparison) == kGreaterOrEqual
                                ? Attribute::mask_right_shift
                                : Attribute::mask_left_bound});
    case Kind::graph: return has_all(node, {Attribute::graph_operations});
    case Kind::device_properties:
      return has_all(node, {Attribute::device_handle}) || has_all(node, {Attribute::device_json});
    case Kind::heuristics:
      return has_all(node, {Attribute::heuristics_graph, Attribute::heuristics_mode,
                            Attribute::heuristics_device});
    case Kind::execution_plan:
      return has_all(node, {Attribute::plan_engine_config, Attribute::plan_device});
    case Kind::variant_pack:
      return has_all(node,
                     {Attribute::pack_ids, Attribute::pack_pointers, Attribute::pack_workspace});
    default: return false;
  }
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return kOldest; }
const char* cudnnGetErrorString(Status) { return "emulated"; }
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  if (bytes > 0) *text = 0;
}

Status cudnnCreate(HandlePointer* handle) {
  *handle = new cudnnContext;
  return kSuccess;
}
Status cudnnDestroy(HandlePointer handle) {
  delete handle;
  return kSuccess;
}
Status cudnnSetStream(HandlePointer handle, CUstream_st* stream) {
  handle->stream = stream;
  return kSuccess;
}

Status cudnnBackendCreateDescriptor(Kind kind, DescriptorPointer* pointer) {
  *pointer = new Node{kind, {}};
  return kSuccess;
}
Status cudnnBackendDestroyDescriptor(DescriptorPointer pointer) {
  delete static_cast<Node*>(pointer);
  return kSuccess;
}

// Others may be referred to only once they are complete.
Status cudnnBackendSetAttribute(DescriptorPointer pointer, Attribute attribute, Type type,
                                std::int64_t count, const void* values) {
  Node& node = *static_cast<Node*>(pointer);
  if (node.finalized || count < 0) return kBadParameter;
  const auto* bytes = static_cast<const char*>(values);
  node.attributes[attribute] = std::vector<char>(bytes, bytes + count * bytes_of(type));
  if (type != Type::descriptor) return kSuccess;
  for (const Node* other : node.all<const Node*>(attribute))
    if (!other->finalized && other->kind != Kind::engine_config) return kBadParameter;
  return kSuccess;
}

Status cudnnBackendGetAttribute(DescriptorPointer pointer, Attribute attribute, Type,
                                std::int64_t most, std::int64_t* count, void* values) {
  const Node& node = *static_cast<Node*>(pointer);
  *count = 1;
  if (most == 0) return kSuccess;
  if (attribute == Attribute::plan_workspace_bytes) {
    std::memcpy(values, &kWorkspaceBytes, sizeof(kWorkspaceBytes));
  } else if (attribute == Attribute::heuristics_results) {
    (*static_cast<Node**>(values))->attributes = node.attributes;  // of which graph it is
  } else {
    return kNotSupported;
  }
  return kSuccess;
}

Status cudnnBackendFinalize(DescriptorPointer pointer) {
  Node& node = *static_cast<Node*>(pointer);
  node.finalized = is_complete(node);
  return node.finalized ? kSuccess : kBadParameter;
}

Status cudnnBackendExecute(HandlePointer handle, DescriptorPointer plan, DescriptorPointer pack) {
  const Node* const graph = static_cast<const Node*>(plan)
                                ->node(Attribute::plan_engine_config)
                                ->node(Attribute::heuristics_graph);
  const Node* const attention = attention_of(graph);
  const auto ids = static_cast<const Node*>(pack)->all<std::int64_t>(Attribute::pack_ids);
  const auto data = static_cast<const Node*>(pack)->all<void*>(Attribute::pack_pointers);
  if (!attention || ids.size() != data.size()) return kBadParameter;
  Pointers pointers;
  for (std::size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = data[i];
  try {
    auto work = std::make_unique<std::function<void()>>(bind_attention(*attention, pointers));
    const auto run = [](void* of) {
      const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(of));
      (*owned)();
    };
    if (cuLaunchHostFunc(handle->stream, run, work.get()) != 0) return kBadParameter;
    work.release();  // to the stream
    return kSuccess;
  } catch (const std::out_of_range&) {  // a tensor that the arguments lack, or not aligned
    return kBadParameter;
  }
}
}
