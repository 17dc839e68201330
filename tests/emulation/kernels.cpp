// SPDX-License-Identifier: Apache-2.0
// Modules of the emulated driver: whatever image is loaded, its kernels are these, compiled for the
// host from the sources that nvcc compiles. Blocks run one after the other, in the stream's order.
#include <atomic>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "attention/kernels/cuda/attention_backward.cuh"
#include "attention/kernels/cuda/plain_attention.hpp"
#include "attention/kernels/cuda/sink_gradient.cuh"
#include "comm/devices/cuda/module.hpp"
#include "tests/emulation/block.hpp"
#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;
namespace kernels = ringspan::attention::cuda;

struct CUmod_st {};

struct CUfunc_st {
  std::string_view name;
  /// Copies the arguments, as a launch does; the result runs that many threads.
  std::function<void(const Grid&)> (*bind)(void** arguments);
  unsigned most_shared_bytes = 48 << 10;  // of a block, until more is asked for
};

namespace {

constexpr Status kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500;
constexpr unsigned kMostSharedBytes = 227 << 10;  // of sm_90
constexpr unsigned kMostThreads = 1024, kMostAlongYAndZ = 65535;

template <typename Task>
Task copied(void** arguments) {
  Task task;
  std::memcpy(static_cast<void*>(&task), arguments[0], sizeof(task));
  return task;
}

/// Threads that have nothing to do with each other, in a grid along x.
template <typename Task, auto kThread, auto kThreads>
std::function<void(const Grid&)> apart(void** arguments) {
  return [task = copied<Task>(arguments)](const Grid& grid) {
    const std::int64_t threads = std::int64_t{grid.x} * grid.threads;
    for (std::int64_t i = 0; i < threads; ++i) {
      if (i < kThreads(task)) kThread(task, i);
    }
  };
}

/// Blocks of threads that meet.
template <typename Task, auto kKernel>
std::function<void(const Grid&)> together(void** arguments) {
  return [task = copied<Task>(arguments)](const Grid& grid) {
    ringspan::emulation::launch({grid.x, grid.y, grid.z}, grid.threads, grid.shared_bytes,
                                [&] { kKernel(task); });
  };
}

template <typename Task>
constexpr auto kCount = [](const Task& task) { return kernels::threads(task); };
constexpr auto kRows = [](const kernels::Merge& task) { return kernels::rows(task); };

using Attention = kernels::AttentionArguments;

#define RINGSPAN_KERNELS(type, dim)                                                         \
  {"attention_forward_" #type "_" #dim,                                                     \
   together<Attention, kernels::attention_forward<kernels::Half::type, dim>>},              \
      {"attention_backward_queries_" #type "_" #dim,                                        \
       together<Attention, kernels::attention_backward_queries<kernels::Half::type, dim>>}, \
  {                                                                                         \
    "attention_backward_keys_" #type "_" #dim,                                              \
        together<Attention, kernels::attention_backward_keys<kernels::Half::type, dim>>     \
  }

std::vector<CUfunc_st>& functions() {
  using kernels::PlainAttention;
  static auto* const all = new std::vector<CUfunc_st>{
      {"ringspan_copy", apart<kernels::Move, kernels::copy, kCount<kernels::Move>>},
      {"ringspan_accumulate", apart<kernels::Move, kernels::accumulate, kCount<kernels::Move>>},
      {"ringspan_fill", apart<kernels::Fill, kernels::fill, kCount<kernels::Fill>>},
      {"ringspan_merge_out", apart<kernels::Merge, kernels::merge_out, kCount<kernels::Merge>>},
      {"ringspan_merge_rows", apart<kernels::Merge, kernels::merge_rows, kRows>},
      {"ringspan_project",
       apart<kernels::Projection, kernels::project, kCount<kernels::Projection>>},
      {"ringspan_plain_forward",
       apart<PlainAttention, kernels::plain_forward, kernels::query_rows>},
      {"ringspan_plain_backward_queries",
       apart<PlainAttention, kernels::plain_backward_queries, kernels::query_rows>},
      {"ringspan_plain_backward_keys",
       apart<PlainAttention, kernels::plain_backward_keys, kernels::key_rows>},
      {"ringspan_finalize", apart<kernels::Finalize, kernels::finalize, kCount<kernels::Finalize>>},
      {"ringspan_delta", apart<kernels::Delta, kernels::delta, kCount<kernels::Delta>>},
      {"ringspan_sink_gradient", together<kernels::SinkGradient, kernels::sink_gradient>},
      RINGSPAN_KERNELS(bf16, 64),
      RINGSPAN_KERNELS(bf16, 128),
      RINGSPAN_KERNELS(bf16, 256),
      RINGSPAN_KERNELS(f16, 64),
      RINGSPAN_KERNELS(f16, 128),
      RINGSPAN_KERNELS(f16, 256),
  };
  return *all;
}

}  // namespace

extern "C" {

Status cuModuleLoadData(ModuleHandle* module, const void* image) {
  if (const Status status = emulation_injected("cuModuleLoadData")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  if (!image) return kInvalidValue;
  *module = new CUmod_st;
  return kSuccess;
}

Status cuModuleUnload(ModuleHandle module) {
  delete module;
  return kSuccess;
}

Status cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (!module) return kInvalidHandle;
  for (CUfunc_st& known : functions()) {
    if (known.name == name) {
      *function = &known;
      return kSuccess;
    }
  }
  return kNotFound;
}

Status cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  if (const Status status = emulation_injected("cuFuncSetAttribute")) return status;
  if (!function) return kInvalidHandle;
  const auto bytes = static_cast<unsigned>(value);
  if (attribute != kMaxDynamicSharedBytes || bytes > kMostSharedBytes) return kInvalidValue;
  std::atomic_ref(function->most_shared_bytes).store(bytes);
  return kSuccess;
}

Status cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      StreamHandle stream, void** arguments, void**) {
  if (const Status status = emulation_injected("cuLaunchKernel")) return status;
  if (!function || !stream) return kInvalidHandle;
  const bool possible = grid_x > 0 && grid_y > 0 && grid_z > 0 && block_x > 0 &&
                        block_x <= kMostThreads && block_y == 1 && block_z == 1 &&
                        grid_y <= kMostAlongYAndZ && grid_z <= kMostAlongYAndZ &&
                        shared_bytes <= std::atomic_ref(function->most_shared_bytes).load();
  if (!possible) return kInvalidValue;
  stream->queue->push([run = function->bind(arguments),
                       grid = Grid{grid_x, grid_y, grid_z, block_x, shared_bytes}] { run(grid); });
  return kSuccess;
}
}
