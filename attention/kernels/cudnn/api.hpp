// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

// What cuDNN's headers declare of its graph interface, as far as it is used here. Names and values
// are those of cudnn_graph.h, version 9.28, which later ones of version 9 keep.
struct CUstream_st;
struct cudnnContext;

namespace ringspan::attention::cudnn {

using Status = int;  // cudnnStatus_t
using HandlePointer = cudnnContext*;
using DescriptorPointer = void*;  // cudnnBackendDescriptor_t

inline constexpr Status kSuccess = 0, kNotSupported = 3000;  // and more of the same thousand
inline constexpr std::size_t kOldest = 92700;                // 9.27: statistics in base 2

enum class Kind : int {  // cudnnBackendDescriptorType_t
  engine_config = 3,
  heuristics = 4,
  execution_plan = 5,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  device_properties = 38,
  attention_forward = 41,
  attention_backward = 43,
  band_mask = 44,
  softmax = 45,
};

enum class Type : int {  // cudnnBackendAttributeType_t
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  void_pointer = 6,
  heuristic_mode = 8,
  pointwise_mode = 14,
  descriptor = 15,
  character = 24,
};

enum class Attribute : int {  // cudnnBackendAttributeName_t
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  plan_engine_config = 401,
  plan_workspace_bytes = 402,
  plan_device = 407,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_virtual = 907,
  tensor_by_value = 908,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  device_handle = 2701,
  device_json = 2702,
  attention_q = 2800,
  attention_k = 2801,
  attention_v = 2802,
  attention_out = 2803,
  attention_scale = 2805,
  attention_scores_graph = 2811,
  attention_scores_in = 2812,
  attention_scores_out = 2813,
  attention_softmax = 2814,
  backward_q = 2851,
  backward_k = 2852,
  backward_v = 2853,
  backward_out = 2854,
  backward_statistics = 2855,
  backward_scale = 2856,
  backward_dq = 2859,
  backward_dk = 2860,
  backward_dv = 2861,
  backward_d_out = 2862,
  backward_scores_graph = 2867,
  backward_scores_in = 2868,
  backward_scores_out = 2869,
  mask_in = 3000,
  mask_left_bound = 3003,
  mask_right_shift = 3004,
  mask_fill = 3005,
  mask_out = 3006,
  mask_comparison = 3007,
  softmax_in = 3100,
  softmax_out = 3101,
  softmax_statistics = 3102,
  softmax_base_2 = 3106,
};

inline constexpr int kFloat = 0, kHalf = 2, kInt32 = 4, kBfloat16 = 9;  // cudnnDataType_t
inline constexpr int kGreater = 302, kGreaterOrEqual = 303;             // cudnnPointwiseMode_t
inline constexpr int kModeFallback = 2, kModeA = 3;                     // cudnnBackendHeurMode_t

/// cuDNN's functions. Filled from libcudnn.so.9; each is named in api.cpp.
struct Api {
  std::size_t (*version)();
  const char* (*error_string)(Status);
  void (*last_error)(char* text, std::size_t bytes);
  Status (*create_handle)(HandlePointer*);
  Status (*destroy_handle)(HandlePointer);
  Status (*set_stream)(HandlePointer, CUstream_st*);
  Status (*create)(Kind, DescriptorPointer*);
  Status (*destroy)(DescriptorPointer);
  Status (*set)(DescriptorPointer, Attribute, Type, std::int64_t count, const void* values);
  Status (*get)(DescriptorPointer, Attribute, Type, std::int64_t most, std::int64_t* count,
                void* values);
  Status (*finalize)(DescriptorPointer);
  Status (*execute)(HandlePointer, DescriptorPointer plan, DescriptorPointer pack);
};

/// Throws not_available with the reason: no library, or one older than 9.27.
std::shared_ptr<const Api> load_cudnn();

/// "9.28.1"
std::string version_text(const Api& api);

/// Whether cuDNN says that it has no such thing, rather than that something has gone wrong.
bool cannot(Status status);

/// Throws, in cuDNN's own words, unless the call has succeeded: not_available for what it cannot
/// do, else system.
void check(const Api& api, Status status, const char* call);

}  // namespace ringspan::attention::cudnn
